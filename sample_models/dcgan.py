"""A DCGAN that draws bright discs: the classic two-optimizer loop."""
import argparse
import os
import random

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--batchSize', type=int, default=32)
parser.add_argument('--nz', type=int, default=16, help='length of the noise vector')
parser.add_argument('--width', type=int, default=8, help='channels of the widest image layer')
parser.add_argument('--lr', type=float, default=0.0002)
parser.add_argument('--beta1', type=float, default=0.5)
parser.add_argument('--ngpu', type=int, default=1, help='number of GPUs to use')
parser.add_argument('--workers', type=int, default=0)
parser.add_argument('--seed', type=int, default=4321)
parser.add_argument('--out', default='dcgan_out')
opt = parser.parse_args()

os.makedirs(opt.out, exist_ok=True)
random.seed(opt.seed)
torch.manual_seed(opt.seed)
cudnn.benchmark = True

use_cuda = torch.cuda.is_available()
device = torch.device('cuda:0' if use_cuda else 'cpu')


class Discs(Dataset):
    """16x16 pictures of one disc each, values in [-1, 1]."""

    def __init__(self, count, size=16):
        rng = random.Random(99)
        axis = torch.arange(size).float()
        self.images = torch.empty(count, 1, size, size)
        for image in self.images:
            cy, cx, r = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(2, 4)
            inside = (axis[:, None] - cy) ** 2 + (axis[None, :] - cx) ** 2 < r * r
            image[0] = inside.float() * 2 - 1

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class Generator(nn.Module):
    def __init__(self, nz, width):
        super(Generator, self).__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nz, 2 * width, 4, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )

    def forward(self, z):
        if z.is_cuda and opt.ngpu > 1:
            return nn.parallel.data_parallel(self.net, z, range(opt.ngpu))
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, width):
        super(Discriminator, self).__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(2 * width, 1, 4, bias=False), nn.Sigmoid(),
        )

    def forward(self, x):
        if x.is_cuda and opt.ngpu > 1:
            scores = nn.parallel.data_parallel(self.net, x, range(opt.ngpu))
        else:
            scores = self.net(x)
        return scores.view(-1)


def init_weights(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


netG = Generator(opt.nz, opt.width)
netD = Discriminator(opt.width)
netG.apply(init_weights)
netD.apply(init_weights)
netG.to(device)
netD.to(device)

bce = nn.BCELoss()
optD = optim.Adam(netD.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))
optG = optim.Adam(netG.parameters(), lr=opt.lr, betas=(opt.beta1, 0.999))

# Drawn once, so that the pictures of one epoch can be compared with those of the next.
fixed_noise = torch.randn(opt.batchSize, opt.nz, 1, 1, device=device)
REAL, FAKE = 1.0, 0.0

loader = DataLoader(Discs(256), batch_size=opt.batchSize, num_workers=opt.workers, pin_memory=use_cuda, drop_last=True)
step = 0
while step < opt.steps:
    for real in loader:
        # The discriminator: real pictures up, generated ones down.
        optD.zero_grad()
        real = real.to(device, non_blocking=True)
        n = real.size(0)
        label = torch.full((n,), REAL, dtype=real.dtype, device=device)
        out_real = netD(real)
        loss_real = bce(out_real, label)
        loss_real.backward()

        noise = torch.randn(n, opt.nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(FAKE)
        loss_fake = bce(netD(fake.detach()), label)
        loss_fake.backward()
        optD.step()

        # The generator: what it draws should pass for real.
        optG.zero_grad()
        label.fill_(REAL)
        out_fake = netD(fake)
        lossG = bce(out_fake, label)
        lossG.backward()
        optG.step()

        lossD = loss_real + loss_fake
        print('step %d loss %r' % (step, lossD.item()))
        if step % 5 == 0:
            print('  generator %.4f, D(real) %.3f, D(fake) %.3f' % (
                lossG.item(), out_real.mean().item(), out_fake.mean().item()))
        step += 1
        if step == opt.steps:
            break
    with torch.no_grad():
        picture = netG(fixed_noise).detach().cpu()
    print('fixed noise gives a mean pixel of %.4f' % picture.numpy().mean())

torch.save(netG.state_dict(), os.path.join(opt.out, 'netG.pth'))
torch.save(netD.state_dict(), os.path.join(opt.out, 'netD.pth'))
