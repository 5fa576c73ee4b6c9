"""Accelerate's mixed precision, and its plugins for engines of GPUs."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax
from xlaport.ruleset.sharding.engines import STAGES, accelerate_plan, zero_plan

PLUGINS = {
    "DeepSpeedPlugin": "DeepSpeed is an engine for GPUs: leave the plugin out",
    "FullyShardedDataParallelPlugin": "FSDP of CUDA: leave the plugin out",
    "MegatronLMPlugin": "Megatron is an engine for GPUs: leave the plugin out",
    "FP8RecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
    "TERecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
    "AORecipeKwargs": "FP8 needs NVIDIA's hardware: mixed_precision=\"bf16\"",
}


def check(context: Context):
    for call in context.calls("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
        if not syntax.is_dead(call):
            yield from precision(context, call)
    for call in context.calls(*(f"accelerate{module}.{name}" for name in PLUGINS for module in ("", ".utils", ".utils.dataclasses"))):
        name = context.names.qualified(call.func)[0].rpartition(".")[2]
        yield context.finding(call, PLUGINS[name] + plan_of(context, name, call))
    for call in context.facts.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and not syntax.is_dead(call):
            default = syntax.argument(call, "default")
            if constant(default) == "fp16" and any("precision" in str(constant(arg)) for arg in call.args):
                quote = context.text(default)[-1]
                yield context.finding(default, "float16 is not a type of a TPU", context.replace(default, f"{quote}bf16{quote}"))


FSDP_SETTINGS = {
    "sharding_strategy": "fsdp_sharding_strategy", "transformer_cls_names_to_wrap": "fsdp_transformer_layer_cls_to_wrap", "min_num_params": "fsdp_min_num_params",
    "activation_checkpointing": "fsdp_activation_checkpointing", "cpu_offload": "fsdp_offload_params",
}


def plan_of(context: Context, plugin: str, call: ast.Call) -> str:
    """What the settings of a plugin become, where they are written out."""
    given = {keyword.arg: written(keyword.value) for keyword in call.keywords if keyword.arg}
    low = next((keyword.value for keyword in context.facts.of(ast.keyword) if keyword.arg == "mixed_precision" and constant(keyword.value)), None)
    if plugin == "FullyShardedDataParallelPlugin":
        values = {FSDP_SETTINGS[name]: value for name, value in given.items() if name in FSDP_SETTINGS}
        return f"; {accelerate_plan(values | {'mixed_precision': written(low)})}"
    if plugin == "DeepSpeedPlugin" and given.get("zero_stage") in STAGES:
        values = {(name,): value for name, value in given.items()} | {(written(low), "enabled"): "true"}
        return f"; {zero_plan(given['zero_stage'], values)}"
    return ""


def written(node: ast.expr | None) -> str:
    """A setting as a file would have it: a constant, the only element of a list, the last part of a name."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and len(node.elts) == 1:
        return written(node.elts[0])
    if isinstance(node, ast.Constant):
        return str(node.value)
    return ast.unparse(node).rpartition(".")[2] if node is not None else ""


def precision(context: Context, call: ast.Call):
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    wanted = given.get("mixed_precision")
    if constant(wanted) in {"fp16", "fp8"}:
        yield context.finding(wanted, "float16 and FP8 are not types of a TPU", context.edit_call(call, mixed_precision='"bf16"'))
    if constant(given.get("fp16")) is True:
        added = {} if wanted is not None else {"mixed_precision": '"bf16"'}
        yield context.finding(given["fp16"], "float16 is not a type of a TPU", context.edit_call(call, remove=("fp16",), **added))
