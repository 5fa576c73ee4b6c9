"""Deep Q-learning: bring a sliding puck to rest at the origin."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

use_cuda = torch.cuda.is_available()


class PuckEnv:
    """A puck on a line. Actions: push left, do nothing, push right. Reward: minus distance and speed."""

    def __init__(self, horizon=40):
        self.horizon = horizon

    def reset(self, seed=None):
        if seed is not None:
            self.rng = np.random.RandomState(seed)
        self.t = 0
        self.state = self.rng.uniform(-1, 1, size=2).astype(np.float32)
        return self.state

    def step(self, action):
        x, v = self.state
        v = 0.95 * v + 0.1 * (action - 1)
        x = x + 0.1 * v
        self.state = np.array([x, v], dtype=np.float32)
        self.t += 1
        return self.state, -abs(x) - 0.1 * abs(v), self.t >= self.horizon


class ReplayBuffer:
    """Transitions in host memory."""

    def __init__(self, capacity, state_dim):
        self.states = np.zeros((capacity, state_dim), dtype=np.float32)
        self.next_states = np.zeros((capacity, state_dim), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)
        self.capacity = capacity
        self.pos = 0
        self.full = False

    def add(self, state, action, reward, next_state, done):
        self.states[self.pos] = state
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.next_states[self.pos] = next_state
        self.dones[self.pos] = done
        self.pos = (self.pos + 1) % self.capacity
        self.full = self.full or self.pos == 0

    def sample(self, batch_size):
        idx = np.random.randint(0, self.capacity if self.full else self.pos, size=batch_size)
        batch = (self.states[idx], self.actions[idx], self.rewards[idx], self.next_states[idx], self.dones[idx])
        batch = [torch.from_numpy(x) for x in batch]
        if use_cuda:
            batch = [x.pin_memory().cuda(non_blocking=True) for x in batch]
        return batch


class QNetwork(nn.Module):
    def __init__(self, state_dim=2, actions=3, hidden=64):
        super().__init__()
        self.fc1 = nn.Linear(state_dim, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, actions)

    def forward(self, x):
        return self.head(F.relu(self.fc2(F.relu(self.fc1(x)))))


def select_action(q_net, state, epsilon):
    if random.random() < epsilon:
        return random.randrange(3)
    state = torch.from_numpy(state).unsqueeze(0)
    if use_cuda:
        state = state.cuda()
    with torch.no_grad():
        return q_net(state).max(1)[1].item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20, help="number of updates")
    parser.add_argument("--learning-starts", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--target-every", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = PuckEnv()
    q_net = QNetwork()
    target_net = QNetwork()
    target_net.load_state_dict(q_net.state_dict())
    target_net.eval()
    optimizer = optim.Adam(q_net.parameters(), lr=args.lr)
    if use_cuda:
        q_net.cuda()
        target_net.cuda()

    buffer = ReplayBuffer(1000, 2)
    losses = []
    episode_return, returns = 0.0, []
    state = env.reset(args.seed)
    t = 0
    while len(losses) < args.steps:
        epsilon = max(0.1, 1.0 - t / 100)
        action = select_action(q_net, state, epsilon)
        next_state, reward, done = env.step(action)
        buffer.add(state, action, reward, next_state, done)
        state = next_state
        episode_return += reward
        if done:
            returns.append(episode_return)
            episode_return = 0.0
            state = env.reset()
        t += 1
        if t < args.learning_starts:
            continue

        states, actions, rewards, next_states, dones = buffer.sample(args.batch_size)
        with torch.no_grad():
            target_max = target_net(next_states).max(1)[0]
            td_target = rewards + args.gamma * target_max * (1 - dones)
        q_values = q_net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q_values, td_target)

        optimizer.zero_grad()
        loss.backward()
        for param in q_net.parameters():
            param.grad.data.clamp_(-1, 1)
        optimizer.step()
        losses.append(loss.detach())

        if len(losses) % args.target_every == 0:
            target_net.load_state_dict(q_net.state_dict())

    print("episodes:", len(returns), "mean return: %.3f" % np.mean(returns))
    for i, loss in enumerate(losses):
        print("step", i, "loss", float(loss))


if __name__ == "__main__":
    main()
