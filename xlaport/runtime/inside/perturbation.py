"""A change of the initial weights as small as their rounding, to see how far a program carries it."""

from __future__ import annotations

import torch

SIZE = 1e-7
"""Relative; half the spacing of float32 numbers is 6e-8."""

SEEN: set[int] = set()


def perturb(parameters: list[torch.Tensor], seed: int) -> None:
    """Multiply every element of parameters not seen before by 1 + 1e-7 n, n standard normal, from a generator of its own."""
    for index, parameter in enumerate(parameters):
        if id(parameter) in SEEN or not parameter.is_floating_point():
            continue
        SEEN.add(id(parameter))
        generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        values = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        values.data.copy_((values.detach().double().cpu() * (1 + SIZE * noise)).to(values.dtype))
