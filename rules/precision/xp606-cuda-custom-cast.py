"""`custom_fwd` and `custom_bwd` of CUDA."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CUDA = {"torch.cuda.amp.custom_fwd": "custom_fwd", "torch.cuda.amp.custom_bwd": "custom_bwd"}
GENERAL = ("torch.amp.custom_fwd", "torch.amp.custom_bwd")
DEVICE = 'device_type="{device_type}"'


def check(context: Context):
    for node in context.uses(*CUDA):
        func = node.func if isinstance(node, ast.Call) else node
        name = next(CUDA[name] for name in context.names.qualified(func) if name in CUDA)
        yield context.finding(node, ops=retargeted(context, node, name))
    for call in context.calls(*GENERAL):
        device = syntax.argument(call, "device_type")
        if constant(device) == "cuda" and not syntax.is_dead(call):
            yield context.finding(call, ops=context.replace(device, '"{device_type}"'))


def retargeted(context: Context, node: ast.expr, name: str):
    if not isinstance(node, ast.Call):
        return context.replace(node, f"torch.amp.{name}({DEVICE})")
    if any(keyword.arg is None for keyword in node.keywords):
        return None
    holes = {f"p{index}": argument for index, argument in enumerate(node.args)}
    holes |= {keyword.arg: keyword.value for keyword in node.keywords}
    pieces = [f"{{p{index}}}" for index in range(len(node.args))] + [DEVICE]
    pieces += [f"{keyword.arg}={{{keyword.arg}}}" for keyword in node.keywords]
    return context.replace(node, f"torch.amp.{name}({', '.join(pieces)})", **holes)
