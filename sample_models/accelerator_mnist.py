import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

AREAS = {'a': (1, 3, 3, 11), 'g': (6, 8, 3, 11), 'd': (11, 13, 3, 11), 'f': (1, 7, 2, 4),
         'b': (1, 7, 10, 12), 'e': (7, 13, 2, 4), 'c': (7, 13, 10, 12)}
SEGMENTS = ['abcdef', 'bc', 'abged', 'abgcd', 'fgbc', 'afgcd', 'afgedc', 'abc', 'abcdefg', 'abcdfg']


def digits(count, seed):
    """14x14 pictures of digits on a seven-segment display, with noise."""
    labels = torch.arange(count) % 10
    images = 0.3 * torch.randn(count, 1, 14, 14, generator=torch.Generator().manual_seed(seed))
    for image, label in zip(images, labels.tolist()):
        for segment in SEGMENTS[label]:
            top, bottom, left, right = AREAS[segment]
            image[0, top:bottom, left:right] += 1
    return TensorDataset(images, labels)


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout = nn.Dropout(dropout)
        self.fc1 = nn.Linear(16 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(self.dropout(x.flatten(1))))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, loader, optimizer, done):
    model.train()
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print('step {} loss {}'.format(done, loss.item()))
        done += 1
        if done == args.steps:
            break
    return done


def test(model, device, loader):
    model.eval()
    loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.nll_loss(output, target, reduction='sum').item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    count = len(loader.dataset)
    print('test loss {:.4f}, {} of {} right'.format(loss / count, correct, count))


def main():
    parser = argparse.ArgumentParser(description='Digits of a seven-segment display')
    parser.add_argument('--batch-size', type=int, default=40)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--lr', type=float, default=0.5)
    parser.add_argument('--gamma', type=float, default=0.7, help='factor on the learning rate after each epoch')
    parser.add_argument('--dropout', type=float, default=0.0)
    parser.add_argument('--no-accel', action='store_true', help='disables accelerator')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--save-model', action='store_true')
    args = parser.parse_args()

    use_accel = not args.no_accel and torch.accelerator.is_available()
    torch.manual_seed(args.seed)

    if use_accel:
        device = torch.accelerator.current_accelerator()
    else:
        device = torch.device("cpu")
    print('device:', device)

    train_kwargs = {'batch_size': args.batch_size, 'shuffle': True}
    test_kwargs = {'batch_size': 100}
    if use_accel:
        accel_kwargs = {'num_workers': 0, 'pin_memory': True}
        train_kwargs.update(accel_kwargs)
        test_kwargs.update(accel_kwargs)

    train_loader = DataLoader(digits(400, seed=1), **train_kwargs)
    test_loader = DataLoader(digits(200, seed=2), **test_kwargs)

    model = Net(args.dropout).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)

    done = 0
    while done < args.steps:
        done = train(args, model, device, train_loader, optimizer, done)
        test(model, device, test_loader)
        scheduler.step()

    if args.save_model:
        torch.save(model.state_dict(), "digits_cnn.pt")


if __name__ == '__main__':
    main()
