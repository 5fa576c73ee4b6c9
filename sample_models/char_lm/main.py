import argparse
import math
import os
import time

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_

from data import Corpus, columns
from model import CharLSTM

parser = argparse.ArgumentParser(description='Character-level LSTM language model')
parser.add_argument('--size', type=int, default=32, help='embedding and hidden size')
parser.add_argument('--layers', type=int, default=1)
parser.add_argument('--untied', action='store_true', help='separate input and output embeddings')
parser.add_argument('--lr', type=float, default=2.0)
parser.add_argument('--clip', type=float, default=0.25)
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--epoch-steps', type=int, default=10, help='steps between validations')
parser.add_argument('--batch-size', type=int, default=16)
parser.add_argument('--bptt', type=int, default=6)
parser.add_argument('--seed', type=int, default=1111)
parser.add_argument('--save', default='char_lm.pt')
args = parser.parse_args()

torch.manual_seed(args.seed)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

corpus = Corpus()
train_data = columns(corpus.train, args.batch_size)
val_data = columns(corpus.valid, args.batch_size)

model = CharLSTM(len(corpus.chars), args.size, args.layers, tied=not args.untied).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)


def window(source, step):
    start = step * args.bptt % (len(source) - args.bptt - 1)
    inputs, targets = source[start:start + args.bptt], source[start + 1:start + 1 + args.bptt]
    return inputs.to(device), targets.to(device)


def lm_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def evaluate():
    model.eval()
    state = model.init_state(args.batch_size)
    total, count = 0., len(val_data) // args.bptt - 1
    for step in range(count):
        inputs, targets = window(val_data, step)
        logits, state = model(inputs, state)
        total += lm_loss(logits, targets).item()
    return total / count


def train_epoch(first, last):
    model.train()
    state = model.init_state(args.batch_size)
    for step in range(first, last):
        inputs, targets = window(train_data, step)
        state = tuple(s.detach() for s in state)  # truncate the backward pass here
        optimizer.zero_grad()
        logits, state = model(inputs, state)
        loss = lm_loss(logits, targets)
        loss.backward()
        clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        print('step {} loss {}'.format(step, loss.item()))


best = math.inf
for first in range(0, args.steps, args.epoch_steps):
    start = time.time()
    train_epoch(first, min(first + args.epoch_steps, args.steps))
    val_loss = evaluate()
    scheduler.step(val_loss)
    print('{:.1f} s, validation loss {:.3f}, perplexity {:.2f}'.format(
        time.time() - start, val_loss, math.exp(val_loss)))
    if val_loss < best:
        best = val_loss
        with open(args.save, 'wb') as f:
            torch.save(model.state_dict(), f)

with open(args.save, 'rb') as f:
    model.load_state_dict(torch.load(f, map_location=device))
print('best model: validation loss {:.3f}'.format(evaluate()))
os.remove(args.save)
