"""A CUDA program of the tests of `verify`: dropout, two layers by name, Adam, a loader that shuffles."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from xlaport.runtime.scalars import watch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-2)
parser.add_argument("--end", default="", help="how the program ends before its time")
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.norm = nn.BatchNorm1d(32)
        self.last = nn.Linear(32, 4)

    def forward(self, x):
        x = F.dropout(F.gelu(self.norm(self.first(x))), 0.2, self.training)
        return self.last(x)


def main():
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(160, 8), torch.randint(0, 4, (160,)))
    loader = DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    if args.end == "crash":
        raise ValueError("the data are not there")
    while args.end == "hang":
        pass
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            watch("half", loss / 2)
            optimizer.step()


if __name__ == "__main__":
    main()
