"""A change of the initial weights as small as their rounding, to see how far a program carries it."""

from __future__ import annotations

from collections.abc import Collection

import torch

from xlaport.runtime.inside.held import local

SIZE = 1e-7
"""Relative; half the spacing of float32 numbers is 6e-8."""

KERNELS = 1e-6
"""Relative: what kernels that sum a thousand products in another order are apart. One step of a public ResNet on XLA:CPU has a loss 9e-7 from that on
the CPU and gradients 5 % from it; weights that differ by 1e-7 move them by 0.7 %."""


def perturb(parameters: list[torch.Tensor], seed: int, spared: Collection[int] = (), size: float = SIZE) -> None:
    """Multiply every element by 1 + size * n, n standard normal, from a generator of its own; `spared` are identities of
    parameters that are left."""
    for index, parameter in enumerate(parameters):
        if id(parameter) in spared or not parameter.is_floating_point():
            continue
        generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        values = local(parameter)
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64)
        values.data.copy_((values.detach().double().cpu() * (1 + size * noise)).to(values.dtype))
