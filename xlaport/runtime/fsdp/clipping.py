"""Gradient clipping by the norm of all gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from xlaport.errors import UserError


def clip_grad_norm_(parameters: nn.Module | torch.Tensor | Iterable[torch.Tensor], max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    """Scale gradients so that their norm together is at most `max_norm`; gives the norm before, on the device, unread.

    A divided gradient stands for all of it: the sum over its parts is the compiler's. Norms are summed in float32, and
    the infinite norm is the largest absolute value (`tensor.norm(inf)` is 1.0 on XLA, see XP971).
    """
    given = parameters.parameters() if isinstance(parameters, nn.Module) else [parameters] if isinstance(parameters, torch.Tensor) else parameters
    gradients = [parameter.grad for parameter in given if parameter.grad is not None]
    if not norm_type > 0:
        raise UserError(f"clip_grad_norm_: norm_type={norm_type!r} must be above 0")
    if not gradients:
        return torch.tensor(0.0)
    norm = total_norm([gradient.detach() for gradient in gradients], float(norm_type))
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for gradient in gradients:
        gradient.detach().mul_(scale.to(gradient.dtype))
    return norm


def total_norm(gradients: list[torch.Tensor], norm_type: float) -> torch.Tensor:
    sizes = [gradient.float().abs() for gradient in gradients]
    if math.isinf(norm_type):
        return torch.stack([size.amax(tuple(range(size.dim()))) if size.dim() else size for size in sizes]).amax(0)
    if norm_type == 2.0:
        return torch.stack([(size * size).sum() for size in sizes]).sum().sqrt()
    return torch.stack([size.pow(norm_type).sum() for size in sizes]).sum().pow(1.0 / norm_type)
