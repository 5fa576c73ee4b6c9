import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(cin, cout):
    layers = []
    for c in (cin, cout):
        layers += [nn.Conv2d(c, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """One level down, one level up."""

    def __init__(self, channels, classes, width=8):
        super().__init__()
        self.channels, self.classes = channels, classes
        self.encoder = double_conv(channels, width)
        self.bottom = double_conv(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.decoder = double_conv(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skip = self.encoder(x)
        x = self.bottom(F.max_pool2d(skip, 2))
        x = self.decoder(torch.cat([skip, self.up(x)], dim=1))
        return self.head(x)
