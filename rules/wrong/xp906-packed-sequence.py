"""Packed sequences: packing reads its lengths on the host, so the batch is packed there and the result moved."""

import ast

from xlaport.ruleset.api import Context, Kind, syntax

PACKS = "torch.nn.utils.rnn.pack_padded_sequence"
LEFT = "packing fails on XLA: pack on the host and move the result, or run the padded batch and mask what lies behind each length"


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls(PACKS, "torch.nn.utils.rnn.pack_sequence"):
        if not syntax.is_dead(call) and not is_packed_on_host(call):
            yield finding_for(context, call)


def is_packed_on_host(call: ast.Call) -> bool:
    """`pack_padded_sequence(x.cpu(), ...)`."""
    batch = argument(call, 0, "input")
    return isinstance(batch, ast.Call) and isinstance(batch.func, ast.Attribute) and batch.func.attr == "cpu"


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if position < len(call.args):
        return None if any(isinstance(item, ast.Starred) for item in call.args) else call.args[position]
    return next((item.value for item in call.keywords if item.arg == name), None)


def finding_for(context: Context, call: ast.Call):
    batch = argument(call, 0, "input")
    device = device_of(context, batch)
    if not context.refers(call.func, PACKS) or device is None:
        return context.finding(call, LEFT)
    lengths = argument(call, 1, "lengths")
    ops = [*context.wrap(call, "{call}.to(" + device + ")"), *context.replace(batch, "{batch}.cpu()", batch=batch)]
    if Kind.TENSOR in context.values.kind(lengths) and not is_on_host(lengths):
        ops += context.replace(lengths, "{lengths}.cpu()", lengths=lengths)
    return context.finding(call, "packing fails on XLA, and works on the host", ops)


def device_of(context: Context, batch: ast.expr | None) -> str | None:
    """Where the packed batch belongs: where the padded one is, or on the device in the methods of a module."""
    if isinstance(batch, ast.Name):
        return f"{batch.id}.device"
    if batch is None:
        return None
    if isinstance(batch, ast.Call) and isinstance(batch.func, ast.Attribute) and batch.func.attr == "cuda":
        return "{device}"
    cls = syntax.enclosing(batch, ast.ClassDef)
    in_module = cls is not None and Kind.MODULE in context.values.kind_of_class(cls, context.values)
    return "{device}" if in_module else None


def is_on_host(lengths: ast.expr) -> bool:
    return isinstance(lengths, ast.Call) and isinstance(lengths.func, ast.Attribute) and lengths.func.attr in {"cpu", "tolist", "numpy"}
