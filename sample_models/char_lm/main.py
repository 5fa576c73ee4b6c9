import argparse
import math
import os
import time

import torch
import torch.nn as nn

import data
import model

parser = argparse.ArgumentParser(description='Character-level LSTM language model')
parser.add_argument('--emsize', type=int, default=48)
parser.add_argument('--nhid', type=int, default=48)
parser.add_argument('--nlayers', type=int, default=2)
parser.add_argument('--lr', type=float, default=2.0)
parser.add_argument('--clip', type=float, default=0.25)
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--batch-size', type=int, default=16)
parser.add_argument('--bptt', type=int, default=12)
parser.add_argument('--untied', action='store_true', help='do not share embedding and softmax weights')
parser.add_argument('--seed', type=int, default=1111)
parser.add_argument('--save', type=str, default='model.pt')
args = parser.parse_args()

torch.manual_seed(args.seed)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

corpus = data.Corpus()
ntokens = len(corpus.chars)


def batchify(ids, bsz):
    # One column per sequence; what does not fit is cut off.
    nbatch = ids.size(0) // bsz
    ids = ids.narrow(0, 0, nbatch * bsz)
    return ids.view(bsz, -1).t().contiguous().to(device)


train_data = batchify(corpus.train, args.batch_size)
val_data = batchify(corpus.valid, args.batch_size)

model = model.RNNModel(ntokens, args.emsize, args.nhid, args.nlayers, not args.untied).to(device)
criterion = nn.NLLLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = args.bptt
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].reshape(-1)


def evaluate(source):
    model.eval()
    total_loss, batches = 0., 0
    hidden = model.init_hidden(args.batch_size)
    with torch.no_grad():
        for i in range(0, source.size(0) - args.bptt, args.bptt):
            inputs, targets = get_batch(source, i)
            output, hidden = model(inputs, hidden)
            total_loss += criterion(output, targets).item()
            batches += 1
    return total_loss / batches


def train(first, last):
    model.train()
    hidden = model.init_hidden(args.batch_size)
    for step in range(first, last):
        inputs, targets = get_batch(train_data, step * args.bptt % (train_data.size(0) - args.bptt - 1))
        # Starting each batch, we detach the hidden state from how it was previously produced.
        optimizer.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(inputs, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        print('step {} loss {}'.format(step, loss.item()))


best_val_loss = None
EPOCH = 10  # steps between validations
for first in range(0, args.steps, EPOCH):
    start_time = time.time()
    train(first, min(first + EPOCH, args.steps))
    val_loss = evaluate(val_data)
    print('| time: {:5.2f}s | valid loss {:5.2f} | valid ppl {:8.2f}'.format(
        time.time() - start_time, val_loss, math.exp(val_loss)))
    if not best_val_loss or val_loss < best_val_loss:
        with open(args.save, 'wb') as f:
            torch.save(model.state_dict(), f)
        best_val_loss = val_loss
    scheduler.step(val_loss)

# Load the best saved model.
with open(args.save, 'rb') as f:
    model.load_state_dict(torch.load(f, map_location=device))
print('| End of training | best valid loss {:5.2f}'.format(evaluate(val_data)))
os.remove(args.save)
