# Tell rising from falling number sequences, with an LSTM over packed batches.
import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB, EMBED, HIDDEN = 32, 16, 24


class Tagger(nn.Module):
    def __init__(self):
        super(Tagger, self).__init__()
        self.embed = nn.Embedding(VOCAB, EMBED, padding_idx=0)
        self.lstm = nn.LSTM(EMBED, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, 2)

    def init_state(self, batch):
        return (torch.cuda.FloatTensor(1, batch, HIDDEN).zero_(),
                torch.cuda.FloatTensor(1, batch, HIDDEN).zero_())

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        packed, _ = self.lstm(packed, self.init_state(tokens.size(0)))
        states, _ = pad_packed_sequence(packed, batch_first=True)
        mask = (tokens != 0).unsqueeze(2).type(torch.cuda.FloatTensor)
        pooled = (states * mask).sum(1) / mask.sum(1)
        return self.out(pooled)


def make_batch(index, batch=16, longest=10):
    """Odd batches have sequences of one length, even ones of falling lengths (sorted, as packing wants)."""
    lengths = [longest] * batch if index % 2 else [max(3, longest - i // 3) for i in range(batch)]
    rows, labels = [], []
    for i, length in enumerate(lengths):
        start, label = 1 + (5 * i + index) % 12, (i + index) % 2
        sequence = [start + t for t in range(length)]
        if label:
            sequence = sequence[::-1]
        rows.append(sequence + [0] * (longest - length))
        labels.append(label)
    return rows, labels, lengths


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--lr', type=float, default=0.01)
    parser.add_argument('--clip', type=float, default=1.0)
    args = parser.parse_args()

    torch.manual_seed(11)
    torch.cuda.manual_seed(11)
    model = Tagger()
    model.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)

    batches = [make_batch(i) for i in range(2)]
    correct = torch.cuda.LongTensor([0])
    for step in range(args.steps):
        rows, labels, lengths = batches[step % len(batches)]
        tokens = torch.cuda.LongTensor(rows)
        target = torch.cuda.LongTensor(labels)
        logits = model(tokens, lengths)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        scheduler.step()
        correct += (logits.argmax(1) == target).sum()
        print('step %d loss %r' % (step, loss.item()))
    print('training accuracy: %.3f' % (correct.item() / (16.0 * args.steps)))


if __name__ == '__main__':
    main()
