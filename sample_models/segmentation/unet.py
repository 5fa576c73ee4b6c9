import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(cin, cout):
    layers = []
    for c in (cin, cout):
        layers += [nn.Conv2d(c, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Two levels down, two levels up."""

    def __init__(self, channels, classes, width=8):
        super().__init__()
        self.channels, self.classes = channels, classes
        self.enc1 = double_conv(channels, width)
        self.enc2 = double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.dec2 = double_conv(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = double_conv(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        x = self.bottom(F.max_pool2d(e2, 2))
        x = self.dec2(torch.cat([e2, self.up2(x)], dim=1))
        x = self.dec1(torch.cat([e1, self.up1(x)], dim=1))
        return self.head(x)
