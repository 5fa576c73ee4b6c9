"""Arguments of Lightning's `Trainer` and `Fabric` that ask for GPUs."""

import ast
import re

from xlaport.analysis import devices
from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

TRAINERS = (
    "lightning.pytorch.Trainer", "lightning.Trainer", "lightning.pytorch.trainer.Trainer", "lightning.Fabric",
    "lightning.fabric.Fabric", "lightning_fabric.Fabric", "lightning.pytorch.trainer.trainer.Trainer",
    "lightning.pytorch.Trainer.from_argparse_args",
)
STRATEGIES = re.compile(r"^lightning\.(pytorch|fabric)\.(strategies|plugins)\.(\w+\.)*(DDP|DP|FSDP|DeepSpeed|SingleDevice|ModelParallel|DataParallel)\w*(Strategy|Plugin)$")
GPU_NAMES = {"gpu", "cuda", "ddp", "ddp_spawn", "dp", "ddp2", "horovod"}
REMOVED = {
    "sync_batchnorm": "has no XLA form",
    "amp_backend": "chooses apex or CUDA's AMP",
    "amp_level": "chooses apex's level",
    "auto_select_gpus": "chooses a GPU",
}
MIXED = re.compile(r"^(16|bf16)(-mixed)?$|^transformer-engine|^16$")


def check(context: Context):
    for call in context.facts.of(ast.Call):
        if context.refers(call.func, *TRAINERS) and not syntax.is_dead(call):
            yield from trainer_findings(context, call)
        elif is_strategy(context, call.func):
            yield context.finding(call, "a strategy for GPUs: leave it out, or XLAFSDPStrategy for sharding")
    if devices.imports_lightning(context.module):
        yield from names(context)


def trainer_findings(context: Context, call: ast.Call):
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for name, value in given.items():
        if name == "accelerator" and constant(value) in GPU_NAMES:
            yield context.finding(value, "raises without a GPU", context.edit_call(call, accelerator='"tpu"'))
        elif name == "gpus":
            wanted = {} if constant(value) in (None, 0) else {"accelerator": '"tpu"', "devices": '"auto"'}
            missing = {key: text for key, text in wanted.items() if key not in given}
            yield context.finding(value, "an option for GPUs, which newer releases do not have", context.edit_call(call, remove=("gpus",), **missing))
        elif name == "devices" and counts_gpus(value) and asks_for_gpu(given):
            yield context.finding(value, "a number of GPUs: a TPU process takes its devices from the runtime", context.edit_call(call, devices='"auto"'))
        elif name in {"strategy", "distributed_backend"} and isinstance(constant(value), str):
            yield from strategy_finding(context, call, name, value)
        elif name == "precision":
            yield from precision_finding(context, call, value)
        elif name in REMOVED and constant(value) not in (None, False):
            yield context.finding(value, f"{name} {REMOVED[name]}", context.edit_call(call, remove=(name,)))


def strategy_finding(context: Context, call: ast.Call, name: str, value: ast.expr):
    wanted = constant(value)
    if wanted.startswith(("ddp", "dp", "horovod", "single_device", "sharded")):
        yield context.finding(value, "a strategy for GPUs: on XLA the fitting one is chosen", context.edit_call(call, remove=(name,)))
    elif wanted.startswith("fsdp"):
        yield context.finding(value, "sharding for GPUs: XLA has its own", context.edit_call(call, **{name: '"xla_fsdp"'}))
    elif wanted.startswith(("deepspeed", "colossalai", "bagua")):
        yield context.finding(value, "an engine for GPUs: strategy=\"xla_fsdp\" divides parameters and optimizer state")


def precision_finding(context: Context, call: ast.Call, value: ast.expr):
    wanted = str(constant(value))
    if wanted == "16-true":
        yield context.finding(value, "float16 is not a type of a TPU", context.edit_call(call, precision='"bf16-true"'))
    elif MIXED.search(wanted):
        yield context.finding(value, "Lightning has no mixed precision on XLA: float32 weights, with bfloat16 passes in matrix products", context.edit_call(call, remove=("precision",)))


def counts_gpus(value: ast.expr) -> bool:
    if isinstance(value, (ast.List, ast.Tuple, ast.UnaryOp)):
        return True
    number = constant(value)
    return isinstance(number, str) and number != "auto" or isinstance(number, int) and number > 1


def asks_for_gpu(given: dict[str, ast.expr]) -> bool:
    return constant(given.get("accelerator")) not in {"cpu", "mps", "hpu", "ipu"}


def is_strategy(context: Context, func: ast.expr) -> bool:
    own = context.module.source.path
    return any(STRATEGIES.match(name) and context.project.find(name, own) is None for name in context.names.qualified(func))


def names(context: Context):
    """`accelerator = "gpu"`, `add_argument("--accelerator", default="gpu")`, `accelerator in ("cuda", "gpu")`."""
    for node in context.facts.of(ast.Constant):
        if node.value not in GPU_NAMES or syntax.is_dead(node) or is_given_to_trainer(context, node) or stands_beside_another(node):
            continue
        if devices.is_lightning_accelerator(node, context.module):
            quote = context.text(node)[-1]
            yield context.finding(node, "raises without a GPU", context.replace(node, f"{quote}tpu{quote}"))


def is_given_to_trainer(context: Context, node: ast.Constant) -> bool:
    place = node.parent
    return isinstance(place, ast.keyword) and isinstance(place.parent, ast.Call) and context.refers(place.parent.func, *TRAINERS)


def stands_beside_another(node: ast.Constant) -> bool:
    """`("cuda", "gpu")`: one of them becomes the TPU."""
    return node.value != "cuda" and any(constant(other) in {"cuda", "tpu"} for other in getattr(node.parent, "elts", ()))
