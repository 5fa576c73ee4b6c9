"""Settings of accelerate and DeepSpeed that divide a model over GPUs, and the plan that takes their place on a TPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlaport.findings import Finding
from xlaport.projectfiles.view import View

CODE = "XP875"
STAGES = frozenset("123")
LOW = ("bf16", "fp16")
"""Of accelerate's `mixed_precision`, and DeepSpeed's sections with `enabled`."""


def findings(view: View, settings: Sequence) -> Iterator[Finding]:
    """`settings` are the scalars of a document."""
    values = {setting.path[-1]: setting.text.strip() for setting in settings if setting.path}
    for setting in settings:
        value = setting.text.strip()
        if setting.path[-1:] == ("distributed_type",) and value in {"FSDP", "DEEPSPEED"}:
            yield view.finding(CODE, setting.start, setting.end, f"{value}: {accelerate_plan(values)}")
        elif setting.path[-2:] == ("zero_optimization", "stage") and value in STAGES:
            yield view.finding(CODE, setting.start, setting.end, f"stage {value}: {zero_plan(value, settings)}")


def accelerate_plan(values: dict[str, str]) -> str:
    """In the words of the settings beside it."""
    strategy = values.get("fsdp_sharding_strategy", "FULL_SHARD")
    mesh = "data=xr.process_count()" if "HYBRID" in strategy else ""
    block, size = values.get("fsdp_transformer_layer_cls_to_wrap"), values.get("fsdp_min_num_params", "0")
    units = f', policy="{block}"' if block else f", policy={size}" if size.isdigit() and int(size) else ""
    low = ', mixed_precision="bf16"' if values.get("mixed_precision") in LOW else ""
    recomputed = ", activation_checkpointing=True" if values.get("fsdp_activation_checkpointing", "").lower() == "true" else ""
    offloads = "; nothing is offloaded to the host" if values.get("fsdp_offload_params", "").lower() == "true" else ""
    return f"{strategy} becomes fsdp.wrap(model, fsdp.make_mesh({mesh}){units}{low}{recomputed}) of xlaport.runtime{offloads}; or run `accelerate config` on the TPU machine"


def zero_plan(stage: str, settings: Sequence) -> str:
    """The engine's settings as calls of a loop that is written out."""
    values = {setting.path: setting.text.strip() for setting in settings if setting.path}
    is_low = any(values.get((name, "enabled"), "").lower() == "true" for name in LOW)
    low = ', mixed_precision="bf16"' if is_low else ""
    if stage == "1":
        parts = ["ZeRO-1 becomes torch_xla's ZeroRedundancyOptimizer, or fsdp.wrap of xlaport.runtime as ZeRO-2 and 3"]
    else:
        parts = [f"ZeRO-{stage} becomes fsdp.wrap(model, fsdp.make_mesh(){low}) of xlaport.runtime"]
    clip, micro = values.get(("gradient_clipping",), "0"), values.get(("gradient_accumulation_steps",), "1")
    if clip not in {"0", "0.0", "auto"}:
        parts.append(f"fsdp.clip_grad_norm_(model, {clip}) before the step")
    if micro.isdigit() and int(micro) > 1:
        parts.append(f"{micro} backward passes a step")
    if any("offload" in part for setting in settings for part in setting.path):
        parts.append("nothing is offloaded to the host")
    return "; ".join(parts)
