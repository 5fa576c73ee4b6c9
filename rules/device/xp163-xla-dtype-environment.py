"""Environment variables of older torch_xla guides."""

import ast

from xlaport.ruleset.api import Context, Danger, syntax

ADVICE = {
    "XLA_USE_BF16": "makes every float32 a bfloat16, the optimizer's state too: use autocast or .bfloat16() where it is wanted",
    "XLA_DOWNCAST_BF16": "makes every float32 a bfloat16, the optimizer's state too: use autocast or .bfloat16() where it is wanted",
    "XLA_USE_32BIT_LONG": "cuts 64-bit integers without a word (2**40 + 1 becomes 1): remove it",
    "XLA_USE_FP16": "has no effect in 2.9: remove it, and use bfloat16",
    "XLA_DOWNCAST_FP16": "has no effect in 2.9: remove it, and use bfloat16",
    "XLA_USE_SPMD": "deprecated: call xr.use_spmd() before the first use of the device",
    "XRT_TPU_CONFIG": "XRT is gone and nothing reads this: set PJRT_DEVICE=TPU",
    "XRT_DEVICE_MAP": "XRT is gone and nothing reads this: set PJRT_DEVICE=TPU",
    "XRT_WORKERS": "XRT is gone and nothing reads this: set PJRT_DEVICE=TPU",
}
ENVIRONMENT = ("os.environ", "os.environ.setdefault", "os.environ.get", "os.getenv", "os.putenv")


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        if not isinstance(node.value, str) or not is_variable(context, node) or syntax.is_dead(node):
            continue
        if node.value in ADVICE:
            yield context.finding(node, f"{node.value} {ADVICE[node.value]}")
        elif node.value == "PJRT_DEVICE" and names_cuda(node):
            yield context.finding(node, "torch_xla 2.9 has no CUDA plugin: set PJRT_DEVICE to TPU or CPU", danger=Danger.LOUD)


def is_variable(context: Context, node: ast.Constant) -> bool:
    place = node.parent
    if isinstance(place, ast.Subscript):
        return place.slice is node and context.refers(place.value, *ENVIRONMENT)
    return isinstance(place, ast.Call) and place.args[:1] == [node] and context.refers(place.func, *ENVIRONMENT)


def names_cuda(node: ast.Constant) -> bool:
    statement = syntax.statement_of(node)
    return any(isinstance(part, ast.Constant) and part.value in {"CUDA", "GPU"} for part in ast.walk(statement))
