"""How a program is parallel: one device, replicas (DDP), or sharded (FSDP)."""

from __future__ import annotations

import re
from enum import Enum

from xlaport.analysis.project import Module, Project

DDP = re.compile(r"^[^#\"'\n]*(\bDistributedDataParallel([(),\]:]| as |[ \t]*$)|\bDDP\()", re.MULTILINE)
"""In code: a comment, a message or the prose of a docstring may speak of it too."""

FSDP = re.compile(r"\bFullyShardedDataParallel\b|\bfully_shard\b")
DATA_PARALLEL = re.compile(r"\b(?:nn|torch)\.DataParallel\(|\bimport DataParallel\b")
PORTED_SPMD = re.compile(r"\buse_spmd\(\)|\bSpmdFullyShardedDataParallel\b|\bmark_sharding\b")


class Mode(Enum):
    ONE = "one device"
    MP = "one process a device, gradients reduced by xm.optimizer_step"
    SPMD = "one process a host, sharded by annotations"
    KEEP = "left as it is"


def mode_of(module: Module, project: Project, choice: str, by_library: bool = False) -> Mode:
    """The mode of the program a file belongs to. `choice` is `--distributed`.

    `auto`: FSDP programs become SPMD, DDP programs replicas; everything else runs on one device. `by_library`
    (`--runtime-library`): whatever uses several devices becomes SPMD.
    """
    path = module.source.path
    if by_library and any(project.program_mentions(path, pattern) for pattern in (FSDP, PORTED_SPMD, DDP, DATA_PARALLEL)):
        return Mode.SPMD
    sharded = project.program_mentions(path, FSDP) or project.program_mentions(path, PORTED_SPMD)
    replicated = project.program_mentions(path, DDP)
    if not sharded and not replicated:
        return Mode.ONE
    if choice == "auto":
        if project.mentions(path, FSDP) or project.mentions(path, PORTED_SPMD):
            return Mode.SPMD
        return Mode.MP if replicated else Mode.SPMD
    return {"spmd": Mode.SPMD, "mp": Mode.MP, "keep": Mode.KEEP}[choice]
