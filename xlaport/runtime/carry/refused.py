"""What only CUDA has: asked for, it says so in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from xlaport.runtime.carry.carrier import CannotCarry, Carrier
from xlaport.runtime.inside import imports

BUILDERS = ("load", "load_inline", "CUDAExtension")


def install(carrier: Carrier) -> None:
    imports.after("torch.utils.cpp_extension", lambda: refuse_builders(carrier))


def refuse_builders(carrier: Carrier) -> None:
    module = sys.modules["torch.utils.cpp_extension"]
    for name in BUILDERS:
        setattr(module, name, without_kernels(name, getattr(module, name)))


def without_kernels(builder: str, original: Callable) -> Callable:
    def build(*arguments, **keywords):
        if builder != "CUDAExtension" and not has_cuda_sources(arguments, keywords):
            return original(*arguments, **keywords)
        raise CannotCarry(f"torch.utils.cpp_extension.{builder} builds CUDA kernels, which run on no other device")

    return build


def has_cuda_sources(arguments: tuple, keywords: dict) -> bool:
    """Whether a build is given CUDA code: files named .cu, or sources of kernels."""
    given = [*arguments, *keywords.values()]
    names = [item for value in given for item in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(item, str)]
    return bool(keywords.get("cuda_sources") or keywords.get("with_cuda")) or any(name.endswith((".cu", ".cuh")) for name in names)
