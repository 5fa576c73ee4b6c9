"""Classifiers of torchvision and a training step of each, for `xlaport preflight --factory bench/models/images.py:resnet50`."""

import torch
import torch.nn.functional as F


def resnet50(batch=64):
    """bfloat16 products, SGD with momentum."""
    import torchvision

    return classifier(torchvision.models.resnet50, batch, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))


def vit(batch=64):
    """ViT-B/16, bfloat16 products, AdamW."""
    import torchvision

    return classifier(torchvision.models.vit_b_16, batch, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))


def classifier(model, batch, optimizer):
    return {
        "model": model,
        "optimizer": optimizer,
        "batch": {"images": ((batch, 3, 224, 224), torch.float32), "labels": ((batch,), torch.int64)},
        "step": lambda model, batch: F.cross_entropy(model(batch["images"]), batch["labels"]),
        "autocast": torch.bfloat16,
    }
