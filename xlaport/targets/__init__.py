"""One profile a target: how each intent is spelled there, with the versions it holds for."""

from xlaport.targets import torch_xla, torchax, torchtpu
from xlaport.targets.base import Target

PROFILES: dict[str, Target] = {profile.name: profile for profile in (torch_xla.XM, torchtpu.TORCHTPU, torchax.TORCHAX)}
"""By the name `--target` takes; the first is the default."""

SOURCES = ("cuda", "torch_xla")
"""What a program may be written for."""
