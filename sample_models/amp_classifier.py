"""Classify synthetic texture patches with a small residual network, mixed precision on one GPU."""
import argparse
import time

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

cudnn.benchmark = True

parser = argparse.ArgumentParser(description="AMP classifier")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=1)


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = nn.Sequential()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride=stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class TinyResNet(nn.Module):
    def __init__(self, classes=6, width=12):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.layer1 = Block(width, width)
        self.layer2 = Block(width, 2 * width, stride=2)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def textures(count, classes=6, size=16):
    """Stripes of a class-dependent direction and period, with noise."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(count) % classes
    rows = torch.arange(size).view(1, size, 1).float()
    cols = torch.arange(size).view(1, 1, size).float()
    angle = labels.view(-1, 1, 1) * 0.5
    phase = 6.28 * torch.rand(count, 1, 1, generator=generator)
    wave = torch.sin((rows * torch.cos(angle) + cols * torch.sin(angle)) * (0.6 + 0.1 * labels.view(-1, 1, 1)) + phase)
    images = wave.unsqueeze(1).repeat(1, 3, 1, 1)
    return images + 0.3 * torch.randn(images.shape, generator=generator), labels


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)

    images, labels = textures(320)
    loader = DataLoader(TensorDataset(images, labels), batch_size=args.batch_size, shuffle=True, pin_memory=True)

    model = TinyResNet().cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    scaler = GradScaler()

    print("training on", torch.cuda.get_device_name(0))
    torch.cuda.synchronize()
    start = time.time()
    step = 0
    model.train()
    while step < args.steps:
        for inputs, targets in loader:
            inputs = inputs.cuda(non_blocking=True)
            targets = targets.cuda(non_blocking=True)
            optimizer.zero_grad()
            with autocast():
                outputs = model(inputs)
                loss = criterion(outputs, targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            print(f"step {step} loss {loss.item()}")
            step += 1
            if step == args.steps:
                break
    torch.cuda.synchronize()
    print("%.1f images/s" % (args.steps * args.batch_size / (time.time() - start)))
    torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
