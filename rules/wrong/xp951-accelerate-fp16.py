"""Accelerate's mixed precision, and its plugins for engines of GPUs."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

PLUGINS = {
    "DeepSpeedPlugin": "DeepSpeed is an engine for GPUs: leave the plugin out, shard with FSDPv2",
    "FullyShardedDataParallelPlugin": "FSDP of CUDA: leave the plugin out, shard with FSDPv2",
    "MegatronLMPlugin": "Megatron is an engine for GPUs: leave the plugin out, shard with FSDPv2",
    "FP8RecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
    "TERecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
    "AORecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
}


def check(context: Context):
    for call in context.calls("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
        if not syntax.is_dead(call):
            yield from precision(context, call)
    for call in context.calls(*(f"accelerate{module}.{name}" for name in PLUGINS for module in ("", ".utils", ".utils.dataclasses"))):
        yield context.finding(call, PLUGINS[context.names.qualified(call.func)[0].rpartition(".")[2]])
    for call in context.facts.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and not syntax.is_dead(call):
            default = next((k.value for k in call.keywords if k.arg == "default"), None)
            if constant(default) == "fp16" and any("precision" in str(constant(arg)) for arg in call.args):
                quote = context.text(default)[-1]
                yield context.finding(default, "float16 is not a type of a TPU", context.replace(default, f"{quote}bf16{quote}"))


def precision(context: Context, call: ast.Call):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    wanted = given.get("mixed_precision")
    if constant(wanted) in {"fp16", "fp8"}:
        yield context.finding(wanted, "float16 and FP8 are not types of a TPU", context.edit_call(call, mixed_precision='"bf16"'))
    if constant(given.get("fp16")) is True:
        added = {} if wanted is not None else {"mixed_precision": '"bf16"'}
        yield context.finding(given["fp16"], "float16 is not a type of a TPU", context.edit_call(call, remove=("fp16",), **added))
