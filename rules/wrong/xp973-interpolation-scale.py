"""`F.interpolate` at scales where XLA's arithmetic is not torch's."""

import ast
import math

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CALLS = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample", "torch.nn.Upsample")
ARGUMENTS = {"interpolate": ("input", "size", "scale_factor", "mode", "align_corners"), "upsample": ("input", "size", "scale_factor", "mode", "align_corners"), "Upsample": ("size", "scale_factor", "mode", "align_corners")}


def check(context: Context):
    if not context.on_device:
        return
    for call in context.calls(*CALLS):
        if not syntax.is_dead(call) and is_wrong(arguments(context, call)):
            yield context.finding(call)


def arguments(context: Context, call: ast.Call) -> dict[str, ast.expr]:
    name = next(name.rpartition(".")[2] for name in context.names.qualified(call.func) if name in CALLS)
    return dict(zip(ARGUMENTS[name], call.args)) | {item.arg: item.value for item in call.keywords if item.arg}


def is_wrong(given: dict[str, ast.expr]) -> bool:
    factors = factors_of(given.get("scale_factor"))
    mode = constant(given["mode"]) if "mode" in given else "nearest"
    if "recompute_scale_factor" in given and constant(given["recompute_scale_factor"]) is not False and mode == "nearest":
        return False
    if mode == "nearest":
        return any(factor != int(factor) for factor in factors)
    aligned = "align_corners" in given and constant(given["align_corners"]) is not False
    return mode == "bilinear" and not aligned and any(factor <= 0 or not math.log2(factor).is_integer() for factor in factors)


def factors_of(node: ast.expr | None) -> list[float]:
    """Numbers that are written out; a factor that is not known is not spoken of."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node] if node is not None else []
    values = [constant(part) for part in parts]
    return [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
