"""YAML, JSON and TOML settings: keys that name a device, a backend, a number of GPUs or half precision."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Protocol

from xlaport.findings import Finding
from xlaport.projectfiles import sharding_plans
from xlaport.projectfiles.view import Edit, View

DEVICE = re.compile(r"(?:.*_)?(?:device|device_type|dev)$")
CUDA_DEVICE = re.compile(r"cuda(?::\d+)?$")
MAP_LOCATION = re.compile(r"map_?location$")
ACCELERATOR = re.compile(r"accelerator$")
BACKEND = re.compile(r"(?:.*_)?backend$")
COUNT = re.compile(
    r"(?:n_?|num_?|number_of_)?(?:gpus?|cuda_devices)(?:_?(?:ids?|num|count|list|per_node))?$|cuda_visible_devices$|(?:use_)?multi_?gpus?$"
)
PICK = re.compile(r"gpus?(?:_?ids?)$|gpu$|cuda_visible_devices$")
"""Where 0 names the first GPU, and does not mean none."""

SWITCH = re.compile(r"(?:use_)?multi_?gpus?$")
"""Of the switches only these: `use_cuda: true` means the same to the migrated program."""

WORTH_READING = re.compile(r"cuda|nccl|gpu|fp16|float16|half|16-|precision\W+16|distributed_type|zero_optimization", re.IGNORECASE)
STRATEGY = re.compile(r"(?:ddp|dp|fsdp|deepspeed|horovod|bagua)")
HALF = re.compile(r"(?:.*_)?(?:fp16|float16|half)(?:_run)?$|use_half$|half_precision$")
PRECISION = re.compile(r"(?:mixed_)?precision$")
HALF_VALUE = re.compile(r"(?:16(?:-mixed|-true)?|fp16|float16|half)$")
ON = frozenset({"true", "yes", "on", "1"})
ACCELERATORS = frozenset({"gpu", "cuda", "tpu"})


class Setting(Protocol):
    """A scalar of a YAML, JSON or TOML document."""

    path: tuple[str, ...]
    text: str
    start: int
    end: int


def check(view: View, settings: list[Setting], in_list: Callable[[Setting], bool]) -> Iterator[Finding]:
    """`in_list` tells whether a setting is an element of a sequence."""
    if not WORTH_READING.search(view.text):
        return
    yield from sharding_plans.findings(view, settings)
    trainers = {setting.path[:-1] for setting in settings if is_accelerator(setting)}
    counted: set[tuple[str, ...]] = set()
    for setting in settings:
        if not setting.path:
            continue
        if not in_list(setting):
            yield from scalar_findings(view, setting, setting.path[:-1] in trainers)
        elif COUNT.match(spelled(setting.path[-1])) and is_plain(setting.text) and setting.path not in counted:
            counted.add(setting.path)  # one finding for `gpus: [0, 1]`
            yield gpu_setting(view, setting)
        elif DEVICE.match(spelled(setting.path[-1]).removesuffix("s")) and CUDA_DEVICE.match(setting.text):
            message = f"{setting.text} in a list of devices: one process has one TPU core; start a process a chip instead"
            yield view.finding("XP873", setting.start, setting.end, message)


@lru_cache(maxsize=4096)
def spelled(key: str) -> str:
    """The key in lower case with underscores; of `--trainer.gpus` the last part."""
    return key.lstrip("-+").replace("-", "_").replace("/", ".").rsplit(".", 1)[-1].lower()


def written(setting: Setting) -> str:
    """`gpus: 8`, `--gpus 8`, or a bare `--fp16`."""
    key = setting.path[-1]
    if not key.startswith("-"):
        return f"{key}: {setting.text}"
    return key if setting.text == "true" else f"{key} {setting.text}"


def is_accelerator(setting: Setting) -> bool:
    return bool(setting.path) and ACCELERATOR.match(spelled(setting.path[-1])) is not None and setting.text in ACCELERATORS


def scalar_findings(view: View, setting: Setting, in_trainer: bool) -> Iterator[Finding]:
    """`in_trainer`: an accelerator of Lightning stands beside the setting."""
    key, value = spelled(setting.path[-1]), setting.text.strip()
    if DEVICE.match(key) and CUDA_DEVICE.match(value):
        yield replaced(view, "XP870", setting, view.target.device_type)
    elif MAP_LOCATION.match(key) and CUDA_DEVICE.match(value):
        yield replaced(view, "XP870", setting, "cpu")
    elif is_accelerator(setting) and value != "tpu":
        yield replaced(view, "XP871", setting, "tpu")
    elif in_trainer and key == "strategy" and STRATEGY.match(value):
        message = f"{written(setting)} does not run on the TPU accelerator: leave it out, or set xla or xla_fsdp"
        yield view.finding("XP871", setting.start, setting.end, message)
    elif BACKEND.match(key) and value == "nccl":
        yield replaced(view, "XP872", setting, view.target.dist_backend)
    elif key == "distributed_type" and value == "MULTI_GPU":
        message = f"{written(setting)} is for CUDA: run `accelerate config` again on the TPU machine"
        yield view.finding("XP873", setting.start, setting.end, message)
    elif DEVICE.match(key) and value == "gpu" or key == "device" and is_plain(value) or is_count(key, value):
        yield gpu_setting(view, setting)
    elif in_trainer and key == "precision" and value.endswith("-mixed"):
        message = f"{written(setting)}: Lightning has no mixed precision on TPUs, set bf16-true or 32-true"
        yield view.finding("XP874", setting.start, setting.end, message)
    elif is_half(setting, key, value):
        message = f"{written(setting)}: a TPU computes in bfloat16, without loss scaling; set what the program has for bf16"
        yield view.finding("XP874", setting.start, setting.end, message)


def is_count(key: str, value: str) -> bool:
    if SWITCH.match(key):
        return value.lower() in ON
    if not COUNT.match(key) or not is_plain(value):
        return False
    return value != "0" or PICK.match(key) is not None


def is_plain(value: str) -> bool:
    """A number, or a list of numbers: not a name, a path or a template."""
    return re.fullmatch(r"[\d,\s]+|all", value) is not None


def is_half(setting: Setting, key: str, value: str) -> bool:
    block = spelled(setting.path[-2]) if len(setting.path) > 1 else ""
    if block == "fp16":
        return key == "enabled" and value.lower() in ON
    if HALF.match(key) and value.lower() in ON:
        return True
    return PRECISION.match(key) is not None and HALF_VALUE.match(value) is not None


def replaced(view: View, code: str, setting: Setting, value: str) -> Finding:
    message = f"{written(setting)} becomes {value}"
    return view.finding(code, setting.start, setting.end, message, [Edit(setting.start, setting.end, value)])


def gpu_setting(view: View, setting: Setting) -> Finding:
    message = f"{written(setting)} counts or picks GPUs: say what the migrated program should do with it (a process a chip)"
    return view.finding("XP873", setting.start, setting.end, message)
