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


def gram_matrix(features):
    b, c, h, w = features.size()
    flat = features.view(b * c, h * w)
    return torch.mm(flat, flat.t()).div(b * c * h * w)


class ContentLoss(nn.Module):

    def __init__(self, target):
        super().__init__()
        # detach: the target is a stated value, not a variable
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


class StyleLoss(nn.Module):

    def __init__(self, target_feature):
        super().__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


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


def get_model_and_losses(cnn, style_img, content_img):
    model, content_losses, style_losses = nn.Sequential(), [], []
    for i, layer in enumerate(copy.deepcopy(cnn)):
        model.add_module("layer_%d" % i, layer)
        if not isinstance(layer, nn.Conv2d):
            continue
        style_losses.append(StyleLoss(model(style_img)))
        model.add_module("style_%d" % i, style_losses[-1])
        if i == 2:
            content_losses.append(ContentLoss(model(content_img)))
            model.add_module("content_%d" % i, content_losses[-1])
    return model, style_losses, content_losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--style-weight", type=float, default=1e3)
    parser.add_argument("--content-weight", type=float, default=1.0)
    args = parser.parse_args()

    content_img, style_img = picture("content"), picture("style")
    input_img = content_img.clone().requires_grad_(True)
    model, style_losses, content_losses = get_model_and_losses(make_cnn(), style_img, content_img)
    optimizer = optim.Adam([input_img], lr=0.02)

    run = [0]
    while run[0] < args.steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = args.style_weight * sum(sl.loss for sl in style_losses)
            content_score = args.content_weight * sum(cl.loss for cl in content_losses)
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
