"""`torch.cuda.memory_allocated()` and its kin: 0 without a GPU, and no error."""

import ast

from xlaport.ruleset.api import Context

USED = ("memory_allocated", "memory_reserved", "memory_cached")
PEAK = ("max_memory_allocated", "max_memory_reserved", "max_memory_cached")


def check(context: Context):
    for names, template in ((USED, "{memory_used}"), (PEAK, "{memory_peak}")):
        for node in context.uses(*(f"{module}.{name}" for module in ("torch.cuda", "torch.accelerator") for name in names)):
            if isinstance(node, ast.Call) and context.is_second_name(node.func):
                continue  # the place that gave the name is edited
            if isinstance(node, ast.Call):
                yield context.finding(node, "0 without a GPU, whatever the TPU uses", context.replace(node, template))
            else:
                yield context.finding(node, "handed on as a function that returns 0", context.replace(node, "lambda *_: " + template))
