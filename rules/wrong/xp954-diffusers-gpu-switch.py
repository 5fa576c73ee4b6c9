"""Memory switches of Diffusers' models and pipelines."""

import ast

from xlaport.ruleset.api import Context

XFORMERS = ("enable_xformers_memory_efficient_attention", "set_use_memory_efficient_attention_xformers")
OFFLOAD = ("enable_model_cpu_offload", "enable_sequential_cpu_offload", "maybe_free_model_hooks")


def check(context: Context):
    for call in context.calls_of_method(*XFORMERS):
        if any(True for _ in context.values.functions_called(call)):
            continue
        ops = context.remove(call.parent) if isinstance(call.parent, ast.Expr) else None
        yield context.finding(call, "needs xformers and a GPU; F.scaled_dot_product_attention is used without it", ops)
    for call in context.calls_of_method(*OFFLOAD):
        if not any(True for _ in context.values.functions_called(call)):
            yield context.finding(call, "moves modules to a GPU and back: put the pipeline on the device with .to(xm.xla_device())")
