'''Variational autoencoder on binary pictures of crossing bars.'''
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--batch-size', type=int, default=64)
parser.add_argument('--steps', type=int, default=20, help='optimizer steps')
parser.add_argument('--lr', type=float, default=1e-3)
parser.add_argument('--no-cuda', action='store_true', default=False, help='stay on the CPU')
parser.add_argument('--seed', type=int, default=1)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()

torch.manual_seed(args.seed)
if args.cuda:
    torch.cuda.manual_seed(args.seed)

device = torch.device("cuda" if args.cuda else "cpu")
kwargs = {'num_workers': 0, 'pin_memory': True} if args.cuda else {}

SIDE, LATENT = 12, 8


def bars(count):
    """Pictures with one horizontal and one vertical bar."""
    images = torch.zeros(count, SIDE, SIDE)
    for i in range(count):
        images[i, (i * 7) % SIDE, :] = 1
        images[i, :, (i * 5 + i // SIDE) % SIDE] = 1
    return TensorDataset(images)


train_loader = DataLoader(bars(640), batch_size=args.batch_size, **kwargs)
test_loader = DataLoader(bars(128), batch_size=args.batch_size, **kwargs)


class VAE(nn.Module):
    def __init__(self, hidden=64):
        super(VAE, self).__init__()
        self.hidden = nn.Linear(SIDE * SIDE, hidden)
        self.mean = nn.Linear(hidden, LATENT)
        self.logvar = nn.Linear(hidden, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, hidden), nn.ReLU(), nn.Linear(hidden, SIDE * SIDE), nn.Sigmoid())

    def encode(self, x):
        h = F.relu(self.hidden(x))
        return self.mean(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        if self.training:
            std = logvar.mul(0.5).exp()
            eps = torch.randn_like(std)
            return eps.mul(std).add(mu)
        return mu

    def forward(self, x):
        mu, logvar = self.encode(x.flatten(1))
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


def elbo_loss(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.flatten(1), reduction='sum')
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


model = VAE()
if args.cuda:
    model.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
history = []


def train(epoch):
    model.train()
    total = 0
    for (data,) in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = elbo_loss(recon, data, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.step()
        history.append(loss.detach())
        if len(history) == args.steps:
            break
    print('epoch {}: {:.2f} per picture'.format(epoch, total / len(train_loader.dataset)))


def test():
    model.eval()
    total = 0
    with torch.no_grad():
        for (data,) in test_loader:
            data = data.to(device)
            recon, mu, logvar = model(data)
            total += elbo_loss(recon, data, mu, logvar).item()
    print('test: {:.2f} per picture'.format(total / len(test_loader.dataset)))


epoch = 0
while len(history) < args.steps:
    epoch += 1
    train(epoch)
    test()

with torch.no_grad():
    z = torch.randn(16, LATENT).to(device)
    pictures = model.decoder(z).cpu()
print('sampled pictures have a mean pixel of {:.4f}'.format(pictures.mean().item()))
for i, loss in enumerate(history):
    print('step {} loss {}'.format(i, loss.item()))
