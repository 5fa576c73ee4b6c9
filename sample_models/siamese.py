import argparse
import itertools

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20, help="number of training steps")
parser.add_argument("--batch_size", type=int, default=32, help="size of the batches")
parser.add_argument("--lr", type=float, default=0.002, help="adam: learning rate")
parser.add_argument("--margin", type=float, default=1.0, help="margin of the contrastive loss")
parser.add_argument("--gpu", type=int, default=0, help="which GPU to use")
opt = parser.parse_args()
print(opt)

cuda = True if torch.cuda.is_available() else False
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
if cuda:
    torch.cuda.set_device(opt.gpu)


class SignalPairs(Dataset):
    """Pairs of noisy signals; label 1 for two signals of different classes."""

    def __init__(self, count, classes=5, length=40):
        rng = np.random.RandomState(17)
        prototypes = rng.randn(classes, length).cumsum(1)
        first, second = rng.randint(0, classes, count), rng.randint(0, classes, count)
        second[::2] = first[::2]
        self.a = prototypes[first] + 0.5 * rng.randn(count, length)
        self.b = prototypes[second] + 0.5 * rng.randn(count, length)
        self.labels = (first != second).astype(np.float64)

    def __getitem__(self, index):
        return self.a[index], self.b[index], self.labels[index]

    def __len__(self):
        return len(self.labels)


class SiameseNet(nn.Module):
    def __init__(self):
        super(SiameseNet, self).__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 8, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(8, 16, 5, padding=2),
            nn.PReLU(),
            nn.MaxPool1d(2),
        )
        self.fc = nn.Linear(160, 8)

    def embed(self, x):
        return F.normalize(self.fc(self.features(x.unsqueeze(1)).flatten(1)))

    def forward(self, a, b):
        return self.embed(a), self.embed(b)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin

    def forward(self, a, b, label):
        distance = F.pairwise_distance(a, b)
        near = (1 - label) * distance.pow(2)
        far = label * torch.clamp(self.margin - distance, min=0.0).pow(2)
        return 0.5 * torch.mean(near + far)


torch.manual_seed(2)
model = SiameseNet()
criterion = ContrastiveLoss(opt.margin)
if cuda:
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model.cuda()
    criterion.cuda()

optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.9, 0.99))
dataloader = DataLoader(SignalPairs(192), batch_size=opt.batch_size, shuffle=True)

# Positive and negative evidence so far, per class of pair
totals = Tensor(2).fill_(0)

losses = []
for epoch in itertools.count():
    for a, b, labels in dataloader:
        a = Variable(a.type(Tensor))
        b = Variable(b.type(Tensor))
        labels = Variable(labels.type(Tensor), requires_grad=False)

        optimizer.zero_grad()
        emb_a, emb_b = model(a, b)
        loss = criterion(emb_a, emb_b, labels)
        loss.backward()
        optimizer.step()

        totals += torch.stack(((1 - labels).sum(), labels.sum()))
        losses.append(loss.data)
        if len(losses) == opt.steps:
            break
    if len(losses) == opt.steps:
        break

same, different = totals.cpu().numpy()
print("pairs seen: %d of one class, %d of two" % (same, different))
for i, loss in enumerate(losses):
    print("step {} loss {}".format(i, loss.cpu().item()))
