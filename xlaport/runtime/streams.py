"""Random numbers of every device, drawn from the host's generator.

The same program on CPU and on XLA then sees the same numbers, so that dropout, noise and sampling can be compared step
by step (measured: a VAE with dropout differs by 3.4e-2 without and by 3.4e-7 with). Kernels of the random operations are
replaced below autograd and below C++ composites (LSTM, attention, Gumbel softmax), so no call site matters. Numbers are
drawn in contiguous order on both sides: a transposed CPU tensor is filled in the order of its indices, as XLA sees it.

What needs the values of a device tensor to draw (a tensor of probabilities or means) draws standard numbers on the host
and combines them on the device, so nothing is read. Poisson, binomial, gamma and Dirichlet draws run on the host in
torch_xla 2.9 anyway and need nothing here.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

LIBRARIES: list[torch.library.Library] = []
"""Registrations live as long as their library object."""

KERNELS: dict[str, object] = {}
"""The CPU kernels as they were: operation -> kernel."""

FILLS = ("bernoulli_.float", "normal_", "uniform_", "exponential_", "random_", "random_.from", "random_.to", "cauchy_", "geometric_", "log_normal_")
"""Operations that fill a tensor with numbers that depend on nothing else."""


def install(key: str) -> None:
    """Replace the random kernels of a dispatch key: `CPU` first, then `XLA` once torch_xla is imported.

    Raises KeyError when XLA is asked for before CPU.
    """
    library = torch.library.Library("aten", "IMPL")
    LIBRARIES.append(library)
    if key == "CPU":
        KERNELS.update({name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in FILLS})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name, kernel in (ON_CPU if key == "CPU" else ON_XLA).items():
            library.impl(name, kernel, key)


# -- drawing on the host


CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def drawn(name: str, shape, dtype: torch.dtype, *parameters, generator=None, **named) -> Tensor:
    """A contiguous host tensor filled by the CPU kernel of `name`."""
    return KERNELS[name].call_boxed(CPU, torch.empty(shape, dtype=dtype, device="cpu"), *parameters, generator=generator, **named)


def fill(name: str):
    """An in-place operation on a tensor of any device."""

    def kernel(self: Tensor, *parameters, generator=None, **named) -> Tensor:
        if self.device.type == "cpu" and self.is_contiguous():
            return KERNELS[name].call_boxed(CPU, self, *parameters, generator=generator, **named)
        return self.copy_(drawn(name, self.shape, self.dtype, *parameters, generator=generator, **named))

    return kernel


def copy_of(name: str):
    """The functional form: `self` gives shape, type and device."""

    def kernel(self: Tensor, *parameters, generator=None) -> Tensor:
        return drawn(name, self.shape, self.dtype, *parameters, generator=generator).to(self.device)

    return kernel


def factory(draw):
    """A factory: the same on the host, moved."""

    def kernel(*arguments, dtype=None, layout=None, device=None, pin_memory=None, generator=None, **named) -> Tensor:
        drawing = {"generator": generator} if generator is not None else {}
        return draw(*arguments, dtype=dtype, device="cpu", **drawing, **named).to(device)

    return kernel


def like(draw):
    def kernel(self: Tensor, *arguments, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None, generator=None) -> Tensor:
        return draw(*arguments, self.shape, dtype=dtype or self.dtype, device="cpu").to(device or self.device)

    return kernel


# -- numbers that depend on a tensor


def uniform(shape, generator=None) -> Tensor:
    return drawn("uniform_", shape, torch.float32, 0.0, 1.0, generator=generator)


def bernoulli_of(p: Tensor, shape, dtype: torch.dtype, generator=None) -> Tensor:
    return (uniform(shape, generator).to(p.device) < p).to(dtype)


def bernoulli(self: Tensor, *, generator=None) -> Tensor:
    return bernoulli_of(self, self.shape, self.dtype, generator)


def bernoulli_tensor_(self: Tensor, p: Tensor, *, generator=None) -> Tensor:
    return self.copy_(bernoulli_of(p.to(self.device), self.shape, self.dtype, generator))


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return input.clone(), torch.ones(input.shape, dtype=torch.bool, device=input.device)
    kept = drawn("bernoulli_.float", input.shape, input.dtype, 1 - p).to(input.device)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * kept * scale, kept.bool()


def standard(shape, dtype: torch.dtype, generator) -> Tensor:
    return drawn("normal_", shape, dtype, 0.0, 1.0, generator=generator)


def normal_means(mean: Tensor, std: float = 1.0, *, generator=None) -> Tensor:
    return mean + standard(mean.shape, mean.dtype, generator).to(mean.device) * std


def normal_deviations(mean: float, std: Tensor, *, generator=None) -> Tensor:
    return mean + standard(std.shape, std.dtype, generator).to(std.device) * std


def normal_both(mean: Tensor, std: Tensor, *, generator=None) -> Tensor:
    shape = torch.broadcast_shapes(mean.shape, std.shape)
    return mean + standard(shape, mean.dtype, generator).to(mean.device) * std


def normal_numbers(mean: float, std: float, size, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None) -> Tensor:
    return (standard(size, dtype or torch.get_default_dtype(), generator) * std + mean).to(device)


def multinomial(self: Tensor, num_samples: int, replacement: bool = False, *, generator=None) -> Tensor:
    """The race of exponentials: the index of the smallest q / p is distributed as p; with replacement, one race a sample."""
    if num_samples == 1 or not replacement:
        race = self / drawn("exponential_", self.shape, self.dtype, 1.0, generator=generator).to(self.device)
        return race.topk(num_samples, dim=-1).indices
    shape = (*self.shape[:-1], num_samples, self.shape[-1])
    race = self.unsqueeze(-2) / drawn("exponential_", shape, self.dtype, 1.0, generator=generator).to(self.device)
    return race.argmax(dim=-1)


DEPENDENT = {
    "bernoulli": bernoulli,
    "bernoulli_.Tensor": bernoulli_tensor_,
    "multinomial": multinomial,
    "normal.Tensor_float": normal_means,
    "normal.float_Tensor": normal_deviations,
    "normal.Tensor_Tensor": normal_both,
    "native_dropout": native_dropout,
}
ON_CPU = {**{name: fill(name) for name in FILLS}, **DEPENDENT}
ON_XLA = {
    **{name: fill(name) for name in FILLS},
    **DEPENDENT,
    "bernoulli.p": copy_of("bernoulli_.float"),
    "uniform": copy_of("uniform_"),
    "rand": factory(torch.rand),
    "randn": factory(torch.randn),
    "randint": factory(torch.randint),
    "randint.low": factory(torch.randint),
    "randperm": factory(torch.randperm),
    "normal.float_float": normal_numbers,
    "rand_like": like(torch.rand),
    "randn_like": like(torch.randn),
}
