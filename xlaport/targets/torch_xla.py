"""PyTorch/XLA 2.9. Facts: the project's API map, measured with torch 2.9.0 and torch_xla 2.9.0 on XLA:CPU."""

from __future__ import annotations

from dataclasses import replace

from xlaport.targets.base import Target

MEASURED = "torch 2.9.0 and torch_xla 2.9.0 on XLA:CPU, run, November 2026"
WHEELS = "the wheels torch_xla 2.9.0 and torch 2.9.0, read, November 2026"

IMPORTS = {
    "torch": "import torch",
    "torch_xla": "import torch_xla",
    "xm": "import torch_xla.core.xla_model as xm",
    "xr": "import torch_xla.runtime as xr",
    "xs": "import torch_xla.distributed.spmd as xs",
    "xp": "import torch_xla.debug.profiler as xp",
    "met": "import torch_xla.debug.metrics as met",
    "xla_backend": "import torch_xla.distributed.xla_backend",
    "xla_backends": "import torch_xla.backends",
    "fsdp": "from xlaport.runtime import fsdp",
    "xla_checkpoint": "import torch_xla.utils.checkpoint",
    "contextlib": "import contextlib",
    "functools": "import functools",
    "time": "import time",
    "np": "import numpy as np",
}

XM = Target(
    name="torch_xla",
    title="PyTorch/XLA",
    versions="2.9",
    device_type="xla",
    package="torch-xla",
    dist_backend="xla",
    spell={
        "device": "xm.xla_device()",
        "place": "xm.xla_device()",
        "lazy_device": 'torch.device("xla")',
        "device_type": "xla",
        "runtime": "XLA",
        "dist_backend": "xla",
        "trace": "xp.Trace",
        "host_only": "PJRT_DEVICE",
        "host_only_value": "CPU",
        "sync": "torch_xla.sync()",
        "sync_wait": "torch_xla.sync(wait=True)",
        "seed": "torch_xla.manual_seed",
        "rank": "xr.global_ordinal()",
        "local_rank": "xr.local_ordinal()",
        "world_size": "xr.world_size()",
        "device_count": "torch_xla.device_count()",
        "host_device_count": "xr.local_device_count()",
        "global_device_count": "xr.global_runtime_device_count()",
        "device_name": "xm.xla_device_kind()",
        "memory_used": 'xm.get_memory_info()["bytes_used"] if xr.device_type() == "TPU" else 0',
        "memory_peak": 'xm.get_memory_info()["peak_bytes_used"] if xr.device_type() == "TPU" else 0',
        "memory_limit": 'xm.get_memory_info()["bytes_limit"] if xr.device_type() == "TPU" else 0',
        "fuses": "XLA fuses",
        "compiles": "XLA compiles",
        "device_kind": "xm.xla_device_kind",
        "device_reading": "xm.xla_device_kind() and xm.get_memory_info()",
        "watching": "tpu-info, xm.get_memory_info() or torch_xla.device_count()",
        "sharding": "SPMD",
        "sharded_model": "SPMD with SpmdFullyShardedDataParallel",
        "reduction": "xm.optimizer_step",
        "memory_tools": "xm.get_memory_info and tpu-info",
        "chip_tool": "tpu-info, which torch_xla[tpu] brings,",
    },
    imports=IMPORTS,
    torch=("2.9", "2.9"),
    launcher="torch_xla.launch",
    compile_backend="openxla",
    requirements=("torch==2.9.*", "torch_xla[tpu]==2.9.*"),
    companions=("torchvision==0.24.*", "torchaudio==2.9.*"),
    stated={
        "device_type": MEASURED,
        "dist_backend": MEASURED,
        "spell": MEASURED,
        "imports": MEASURED,
        "requirements": WHEELS,
        "companions": WHEELS,
        "python": WHEELS,
        "torch": WHEELS,
        "launcher": MEASURED,
        "compile_backend": MEASURED,
        "falls_back": MEASURED,
    },
)
"""The spelling of the project's own guides: `xm.xla_device()` carries a DeprecationWarning since 2.8."""

XM_2X = replace(XM, spell={**XM.spell, "device": "torch_xla.device()", "place": "torch_xla.device()"})
"""`spelling = "2.x"`: the names without deprecation warnings."""

SPELLINGS = {"xm": XM, "2.x": XM_2X}
