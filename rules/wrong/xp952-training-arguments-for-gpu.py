"""Arguments of the Hugging Face `Trainer` that need a GPU."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CLASSES = re.compile(r"^(transformers|trl|optimum|sentence_transformers|setfit)\.(\w+\.)*\w*(TrainingArguments|Config)$")
BFLOAT = {"fp16": "bf16", "fp16_full_eval": "bf16_full_eval"}
REMOVED = {
    "tf32": "TF32 is a mode of NVIDIA's tensor cores",
    "torch_compile": "inductor has no XLA backend; XLA compiles anyway",
    "use_liger_kernel": "Liger's layers are Triton kernels",
    "ddp_backend": "a backend for GPUs; XLA has its own",
    "half_precision_backend": "chooses apex or CUDA's AMP",
    "fp16_backend": "chooses apex or CUDA's AMP",
    "fp16_opt_level": "chooses apex's level",
    "torch_compile_backend": "inductor has no XLA backend; XLA compiles anyway",
    "torch_compile_mode": "inductor has no XLA backend; XLA compiles anyway",
    "torch_empty_cache_steps": "empties a cache XLA does not have",
}
OPTIMIZERS = re.compile(r"fused|8bit|paged|4bit|bnb|apex|npu")
MANUAL = {
    "deepspeed": 'DeepSpeed is an engine for GPUs: fsdp="full_shard" with fsdp_config={"xla": True, "xla_fsdp_v2": True}',
    "fsdp": 'on XLA sharding needs fsdp_config={"xla": True, "xla_fsdp_v2": True, "transformer_layer_cls_to_wrap": [...]}',
    "gradient_checkpointing": "torch's checkpoint crashes on XLA tensors: leave it out, or xla_fsdp_grad_ckpt in fsdp_config",
    "use_vllm": "vLLM's GPU engine does not run on XLA: generate with the model itself",
}


COMPILER = "inductor raises for tensors of a TPU"
REMOVED_TORCHTPU = {
    **{name: why for name, why in REMOVED.items() if name != "torch_compile"},
    **dict.fromkeys(("torch_compile_backend", "torch_compile_mode"), COMPILER),
    "ddp_backend": "a backend for GPUs; a TPU's is chosen by the device",
    "torch_empty_cache_steps": "empties a cache a TPU does not have",
}
OWN_LOOP = "is not established for TorchTPU: fully_shard, in a loop of your own"
MANUAL_TORCHTPU = {"deepspeed": f"DeepSpeed {OWN_LOOP}", "fsdp": f"the Trainer's FSDP {OWN_LOOP}", "use_vllm": "vLLM's GPU engine does not run on a TPU: vllm-torchtpu does"}


def check(context: Context):
    yield from found_in(context, REMOVED, MANUAL)


def check_torchtpu(context: Context):
    """torch.compile and checkpoints of activations work there as they are."""
    yield from found_in(context, REMOVED_TORCHTPU, MANUAL_TORCHTPU)


def found_in(context: Context, removed: dict[str, str], manual: dict[str, str]):
    for call in context.facts.of(ast.Call):
        if any(CLASSES.match(name) for name in context.names.qualified(call.func)) and not syntax.is_dead(call):
            yield from argument_findings(context, call, removed, manual)


def argument_findings(context: Context, call: ast.Call, removed: dict[str, str], manual: dict[str, str]):
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for name, value in given.items():
        known = constant(value)
        if known in (None, False) and isinstance(value, ast.Constant):
            continue
        if name in BFLOAT and known is True:
            added = {} if BFLOAT[name] in given else {BFLOAT[name]: "True"}
            yield context.finding(value, "float16 is not a type of a TPU", context.edit_call(call, remove=(name,), **added))
        elif name in removed and isinstance(value, ast.Constant) and known != "gloo":
            yield context.finding(value, removed[name], context.edit_call(call, remove=(name,)))
        elif name == "optim" and isinstance(known, str) and OPTIMIZERS.search(known):
            yield context.finding(value, "an optimizer made of CUDA kernels", context.edit_call(call, optim='"adamw_torch"'))
        elif name in manual and not (name == "fsdp" and (known == "" or "xla" in context.text(call))):
            yield context.finding(value, manual[name])
