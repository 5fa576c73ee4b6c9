"""How a program is parallel: one device, replicas (DDP), or sharded (FSDP)."""

from __future__ import annotations

import re
from enum import Enum

from xlaport.analysis.project import Module, Project

DDP = re.compile(r"^[^#\"'\n]*(\bDistributedDataParallel([(),\]:]| as |[ \t]*$)|\bDDP\()", re.MULTILINE)
"""In code: a comment, a message or the prose of a docstring may speak of it too."""

FSDP = re.compile(r"\bFullyShardedDataParallel\b|\bfully_shard\b")
DATA_PARALLEL = re.compile(r"\b(?:nn|torch)\.DataParallel\(|\bimport DataParallel\b")
INIT_GROUP = re.compile(r"^[^#\"'\n]*\binit_process_group\(", re.MULTILINE)
AVERAGES = re.compile(
    r"^(?![ \t]*(?:from|import)\b)[^#\"'\n]*\b\w*(?:DataParallel|DDP|[dD]dp_?[mM]odel|auto_model|DistributedOptimizer|replicate|prepare_model|build_ddp)\b[ \t]*(?:[(),\]:]|$)"
    r"|\bDistributedDataParallel as (?!\w*(?:DDP|DataParallel)\b)"
    r"|^(?:from|import) (?:horovod|deepspeed|colossalai|fairscale|ignite|bagua)\b"
    r"|\b(?:reduce_gradients|broadcast_master_param|optimizer_step)\(",
    re.MULTILINE,
)
"""Code that wraps a model in what averages gradients, or a port of it; an import that nothing uses does not."""

COLLECTIVES = "all_reduce|all_gather|all_gather_into_tensor|_all_gather_base|reduce_scatter|reduce_scatter_tensor|all_to_all|all_to_all_single"
UNPINNED = re.compile(
    rf"^[^#\n]*(?<!\bxm)\.(?:{COLLECTIVES})\("
    r"|^[^#\n]*\b(?:dist|distributed|c10d)\.(?:broadcast|reduce|scatter|gather)\("
    rf"|^[ \t]*from torch\.distributed[\w.]* import (?:\([^)]*|[^#\n]*)\b(?:{COLLECTIVES}|broadcast|reduce|scatter|gather)\b"
    r"|\bpin_layout=False",
    re.MULTILINE,
)
"""Collectives of torch.distributed on tensors, which its xla backend does not pin to a layout."""

COLLECTIVE_CALL = re.compile(rf"\.(?:{COLLECTIVES})\(|\bdist\w*\.(?:broadcast|reduce|scatter|gather)\(")

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


def exchanges_by_hand(module: Module, project: Project) -> bool:
    """Does the program join a process group, and no wrapper averages its gradients? What it exchanges it exchanges itself."""
    path = module.source.path
    return project.program_mentions(path, INIT_GROUP) and not any(project.program_mentions(path, pattern) for pattern in (FSDP, PORTED_SPMD, AVERAGES))


def has_unpinned_collectives(module: Module, project: Project) -> bool:
    """May a graph of the program hold an AllReduce without a layout? XLA refuses one that has others with it."""
    return project.program_mentions(module.source.path, UNPINNED)
