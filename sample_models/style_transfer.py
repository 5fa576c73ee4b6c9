"""Optimise an image so that its features match a content image and its Gram matrices a style image.

The network is a fixed random one: enough to show the method without downloading weights.
"""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.set_default_device(device)


def picture(kind, size=24):
    rows = torch.linspace(0, 1, size, device=device).view(1, size, 1)
    cols = torch.linspace(0, 1, size, device=device).view(1, 1, size)
    hue = torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    if kind == "content":
        image = torch.sigmoid(20 * (0.1 * hue - (rows - 0.5) ** 2 - (cols - 0.5) ** 2))
    else:
        image = 0.5 + 0.5 * torch.sin(18 * hue * rows + 25 * cols)
    return image.unsqueeze(0)


def gram(features):
    flat = features.flatten(2)[0]
    return flat @ flat.t() / features.numel()


class Probe(nn.Module):
    """Passes its input on, and remembers how far `describe(input)` is from that of the target."""

    def __init__(self, target, describe):
        super().__init__()
        self.describe = describe
        self.target = describe(target).detach()

    def forward(self, x):
        self.loss = F.mse_loss(self.describe(x), self.target)
        return x


def make_cnn():
    """Weights of a formula rather than of a generator, so that every device has the same."""
    cnn = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=False),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=False), nn.AvgPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace=False),
    )
    for k, p in enumerate(cnn.parameters()):
        values = torch.sin(torch.arange(p.numel()) * 0.7 + k) * 0.3
        p.data.copy_(values.view_as(p))
        p.requires_grad_(False)
    return cnn.to(device).eval()


def with_probes(cnn, style_img, content_img):
    model, content_probes, style_probes = nn.Sequential(), [], []
    for layer in copy.deepcopy(cnn):
        model.append(layer)
        if not isinstance(layer, nn.Conv2d):
            continue
        style_probes.append(Probe(model(style_img), gram))
        if len(style_probes) == 2:
            content_probes.append(Probe(model(content_img), torch.clone))
            model.append(content_probes[-1])
        model.append(style_probes[-1])
    return model, style_probes, content_probes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--style-weight", type=float, default=1e3)
    parser.add_argument("--content-weight", type=float, default=1.0)
    args = parser.parse_args()

    content_img, style_img = picture("content"), picture("style")
    input_img = content_img.clone().requires_grad_(True)
    model, style_probes, content_probes = with_probes(make_cnn(), style_img, content_img)
    optimizer = optim.Adam([input_img], lr=0.02)

    run = [0]
    while run[0] < args.steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = args.style_weight * sum(p.loss for p in style_probes)
            content_score = args.content_weight * sum(p.loss for p in content_probes)
            loss = style_score + content_score
            loss.backward()
            print(f"step {run[0]} loss {loss.item()}")
            run[0] += 1
            return loss

        optimizer.step(closure)

    with torch.no_grad():
        input_img.clamp_(0, 1)
    print("mean pixel", input_img.mean().item())


if __name__ == "__main__":
    main()
