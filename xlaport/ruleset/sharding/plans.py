"""What the distributed setup of a program becomes, as a table for the report: wrapper, mesh, units, precision, clipping, checkpoints, batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from xlaport.analysis import gradients
from xlaport.ruleset.api import Context, Mode, syntax
from xlaport.ruleset.sharding.settings import AS_IT_WAS, DATA_PARALLEL, DDP, FSDP1, FSDP2, Wrapper, arguments_of, read, value_of, whole_models

SHARDED_CHECKPOINT = re.compile(r"\bSHARDED_STATE_DICT\b|\bdcp\.(?:async_)?save\b|distributed\.checkpoint as|from torch\.distributed import checkpoint")
SAVED = re.compile(r"\btorch\.save\(")
SYNC_NORM = re.compile(r"convert_sync_?batchnorm\(|convert_syncbn_model\(")
RATE_BY_RANKS = re.compile(r"\blr\b[^\n]*\*[^\n]*world_size|world_size[^\n]*\*[^\n]*\blr\b")


@dataclass(frozen=True)
class Row:
    what: str
    source: str
    port: str


@dataclass(frozen=True)
class Plan:
    """Of one wrapper of a whole model, `place` its file and line."""

    place: str
    rows: tuple[Row, ...]


def plans(context: Context) -> Iterator[Plan]:
    """Those of one file of a program that is to be ported."""
    if context.mode not in (Mode.SPMD, Mode.MP):
        return
    kinds = ((FSDP1, FSDP2), DDP, (DATA_PARALLEL,)) if context.settings.runtime_library else ((FSDP1, FSDP2), DDP)
    for kind in kinds:  # a program may choose one when it runs
        yield from plans_of(context, [call for call in context.calls(*kind) if not syntax.is_dead(call)])


def plans_of(context: Context, calls: list[ast.Call]) -> Iterator[Plan]:
    whole = whole_models(calls)
    for call in whole:
        wrapper = read(context, call, has_inner=len(calls) > len(whole))
        if wrapper is not None:
            yield Plan(f"{context.module.source.name}:{call.lineno}", tuple(rows(context, wrapper)))


def rows(context: Context, wrapper: Wrapper) -> Iterator[Row]:
    name = ast.unparse(wrapper.call.func)
    arguments = arguments_of(context, wrapper.call)
    given = {name: " ".join(ast.unparse(value).split()) for name, value in arguments.items()}
    if context.mode is Mode.MP:
        whole = "; every chip holds the whole model" if wrapper.is_sharded else ""
        yield Row("wrapper", name, f"one process a chip; xm.optimizer_step averages the gradients{whole}")
        yield Row("batch", "of each process", "of each process; the job's is that times the chips")
        if context.project.program_mentions(context.module.source.path, SYNC_NORM):
            yield Row("batch norm", "SyncBatchNorm", "over the batch of each replica: keep that large, or --distributed spmd")
    else:
        by_library = context.settings.runtime_library
        how = "fsdp.wrap" if by_library else "parameters and batches marked" if wrapper.is_sharded else "batches marked"
        yield Row("wrapper", name, f"one process a host; {how}")
        asked = given.get("sharding_strategy") or given.get("mesh") or given.get("device_mesh") or "all GPUs"
        yield Row("mesh", asked, wrapper.mesh.said if by_library or not wrapper.is_sharded else "all chips along fsdp")
        policy = value_of(context, arguments.get("auto_wrap_policy"))
        units = " ".join(ast.unparse(policy).split()) if policy is not None else "the modules that are wrapped" if wrapper.is_sharded else "the model"
        yield Row("units", units, wrapper.policy.said if by_library else "the compiler gathers each parameter where it is used")
        policy = value_of(context, arguments.get("mixed_precision") or arguments.get("mp_policy"))
        low = " ".join(ast.unparse(policy).split()) if policy is not None else "as the settings say" if wrapper.precision.holes else "none"
        yield Row("precision", low, wrapper.precision.said if by_library or wrapper.precision.said == AS_IT_WAS else 'float32; torch.autocast("xla") is for you to add')
        if by_library and wrapper.parts.said:
            yield Row("parts of layers", "parallelize_module", wrapper.parts.said)
        yield Row("batch", "of each process", "of all chips: multiply a loader's batch size by the ranks there were")
    yield from clipping(context, wrapper)
    yield from checkpoints(context)
    if context.project.program_mentions(context.module.source.path, RATE_BY_RANKS):
        scaled = "scaled by that of chips" if context.mode is Mode.MP else "scaled by that of hosts: multiply by the chips, as the batch grows with them"
        yield Row("learning rate", "scaled by the number of ranks", scaled)
    for left in wrapper.left if context.mode is Mode.SPMD else ():
        yield Row("besides", "", left)


def clipping(context: Context, wrapper: Wrapper) -> Iterator[Row]:
    by_method = [call for call in context.calls_of_method("clip_grad_norm_") if not context.names.qualified(call.func)]
    if by_method and context.mode is Mode.SPMD:
        port = "fsdp.clip_grad_norm_: the norm of all gradients" if context.settings.runtime_library else "torch.nn.utils.clip_grad_norm_: a gradient stands for all its parts"
        yield Row("clipping", ast.unparse(by_method[0]), port)
    elif by_method or any(context.calls(*gradients.CLIPS)):
        yield Row("clipping", ast.unparse(by_method[0]) if by_method else "torch.nn.utils", clipped_where(context) if context.mode is Mode.MP else "as it was: a gradient stands for all its parts")


def clipped_where(context: Context) -> str:
    """What XP201 makes of it: nothing, where no step of this file is seen to come behind the clip."""
    if any(gradients.averaged_at(context.training, step, gradients.is_clip) for step in context.training.steps):
        return "after xm.reduce_gradients, before the step"
    return "where it was, no step is seen behind it in its file: call xm.reduce_gradients before it"


def checkpoints(context: Context) -> Iterator[Row]:
    path = context.module.source.path
    if context.project.program_mentions(path, SHARDED_CHECKPOINT):
        yield Row("checkpoint", "shards", "for you: fsdp.save and fsdp.load of xlaport.runtime, or SPMDSavePlanner")
    if context.project.program_mentions(path, SAVED):
        yield Row("checkpoint", "torch.save", "xm.save: one file of whole values, that loads anywhere")
