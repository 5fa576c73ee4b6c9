"""Memory switches of Diffusers' models and pipelines."""

import ast
import re

from xlaport.ruleset.api import Context

XFORMERS = ("enable_xformers_memory_efficient_attention", "set_use_memory_efficient_attention_xformers")
OFFLOAD = ("enable_model_cpu_offload", "enable_sequential_cpu_offload", "maybe_free_model_hooks")


def check(context: Context):
    for call in context.calls_of_method(*XFORMERS):
        if is_of_project(context, call.func.attr):
            continue
        ops = context.remove(call.parent) if isinstance(call.parent, ast.Expr) else None
        yield context.finding(call, "needs xformers and a GPU; F.scaled_dot_product_attention is used without it", ops)
    for call in context.calls_of_method(*OFFLOAD):
        if not is_of_project(context, call.func.attr):
            yield context.finding(call, "moves modules to a GPU and back: put the pipeline on the device with .to({place})")


def is_of_project(context: Context, method: str) -> bool:
    """Is it a method of the project's own, as in Diffusers itself?"""
    definition = re.compile(rf"\bdef {method}\b")
    return any(context.project.mentions(path, definition) for path in context.project.with_word(method))
