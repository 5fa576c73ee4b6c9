"""What an optimizer holds, and this rank's part of it."""

from __future__ import annotations

import torch
from torch.optim import Optimizer


def parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    """Those of all its groups, in order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
