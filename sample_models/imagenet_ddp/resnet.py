import torch.nn as nn


def conv_bn(cin, cout, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super(Residual, self).__init__()
        self.body = nn.Sequential(conv_bn(cin, cout, 3, stride), nn.ReLU(inplace=True), conv_bn(cout, cout, 3))
        self.skip = nn.Identity() if stride == 1 and cin == cout else conv_bn(cin, cout, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.body(x)
        out += self.skip(x)
        return self.relu(out)


def resnet(num_classes, widths=(8, 16)):
    layers = [conv_bn(3, widths[0], 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for cin, cout in zip((widths[0],) + widths, widths):
        layers.append(Residual(cin, cout, stride=1 if cin == cout else 2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], num_classes)]
    return nn.Sequential(*layers)
