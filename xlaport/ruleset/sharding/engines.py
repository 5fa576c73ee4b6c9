"""Settings of engines that divide a model over GPUs (accelerate's FSDP, DeepSpeed's ZeRO), and the plan that takes their place on a TPU."""

from __future__ import annotations

from collections.abc import Mapping

STAGES = frozenset("123")
LOW = ("bf16", "fp16")
"""Of accelerate's `mixed_precision`, and DeepSpeed's sections with `enabled`."""


def accelerate_plan(values: Mapping[str, str]) -> str:
    """Accelerate's settings, by name, as a call of `fsdp.wrap`."""
    strategy = values.get("fsdp_sharding_strategy", "FULL_SHARD")
    mesh = "data=xr.process_count()" if "HYBRID" in strategy else ""
    block, size = values.get("fsdp_transformer_layer_cls_to_wrap"), values.get("fsdp_min_num_params", "0")
    units = f', policy="{block}"' if block else f", policy={size}" if size.isdigit() and int(size) else ""
    low = ', mixed_precision="bf16"' if values.get("mixed_precision") in LOW else ""
    recomputed = ", activation_checkpointing=True" if values.get("fsdp_activation_checkpointing", "").lower() == "true" else ""
    offloads = "; nothing is offloaded to the host" if values.get("fsdp_offload_params", "").lower() == "true" else ""
    return f"{strategy} becomes fsdp.wrap(model, fsdp.make_mesh({mesh}){units}{low}{recomputed}) of xlaport.runtime{offloads}; or run `accelerate config` on the TPU machine"


def zero_plan(stage: str, values: Mapping[tuple[str, ...], str]) -> str:
    """DeepSpeed's settings, by path, as calls of a loop that is written out."""
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
    if any("offload" in part for path in values for part in path):
        parts.append("nothing is offloaded to the host")
    return "; ".join(parts)
