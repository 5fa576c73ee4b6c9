"""TorchTPU 0.2.0 (`torch-tpu`). Facts: its published wheel, read and imported beside torch 2.13.0 on a host without a TPU.

Nothing here was run on TPU hardware; `stated` says of each fact where it is from.
"""

from __future__ import annotations

from xlaport.targets.base import Target

WHEEL = "the wheel torch_tpu 0.2.0, read, November 2026"
RUN = "the wheel torch_tpu 0.2.0, run without a TPU beside torch 2.13.0, November 2026"
SECOND_HAND = "other projects' code and issues, 2026: not confirmed in the wheel"

TORCHTPU = Target(
    name="torchtpu",
    title="TorchTPU",
    versions="0.2",
    device_type="tpu",
    package="torch-tpu",
    dist_backend="tpu_dist",
    spell={
        "device": 'torch.device("tpu")',
        "place": '"tpu"',
        "lazy_device": 'torch.device("tpu")',
        "device_type": "tpu",
        "runtime": "TPU",
        "dist_backend": "tpu_dist",
        "sync_wait": "torch.accelerator.synchronize()",
        "seed": "torch.manual_seed",
        "rank": "torch.distributed.get_rank()",
        "local_rank": "torch.accelerator.current_device_index()",
        "world_size": "torch.distributed.get_world_size()",
        "device_count": "torch.accelerator.device_count()",
        "host_device_count": "torch.accelerator.device_count()",
        "device_name": "torch.tpu.get_device_name()",
        "memory_limit": "torch.tpu.get_device_properties().total_memory",
        "host_only": "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "host_only_value": "0",
        "trace": "torch.profiler.record_function",
        "fuses": "torch.compile fuses",
        "compiles": "torch.compile compiles",
        "device_kind": "torch.tpu.get_device_name",
        "device_reading": "torch.tpu.get_device_properties()",
        "watching": "tpu-info or torch.accelerator.device_count()",
        "sharding": "fully_shard",
        "sharded_model": "fully_shard of torch.distributed.fsdp",
        "reduction": "DistributedDataParallel",
        "memory_tools": "tpu-info",
        "chip_tool": "tpu-info, a package of its own,",
    },
    imports={
        "torch": "import torch",
        "os": "import os",
        "time": "import time",
        "functools": "import functools",
        "contextlib": "import contextlib",
    },
    requirements=("torch>=2.11,<=2.15", "torch-tpu==0.2.*"),
    companions=("torchvision>=0.26", "torchaudio>=2.11", "libtpu>=0.0.50"),
    python="3.11",
    torch=("2.11", "2.15"),
    launcher="torch.tpu.distributed.set_tpu_launch_env",
    compile_raises=frozenset({"inductor", "cudagraphs", "tensorrt", "torch_tensorrt", "onnxrt", "nvfuser", "aot_ts_nvfuser", "openxla"}),
    renamed_variables={"TPU_LAUNCH_BLOCKING": "TORCH_TPU_LAUNCH_BLOCKING", "TPU_DEFER_AND_FUSE": "TORCH_TPU_DEFER_AND_FUSE"},
    falls_back=False,
    own=frozenset(
        f"torch.accelerator.{name}"
        for name in ("is_available", "device_count", "current_accelerator", "current_device_index", "synchronize", "current_stream")
    ),
    distributed="keep",
    autocast_dtype="torch.bfloat16",
    stated={
        "device_type": RUN,
        "dist_backend": RUN,
        "spell": RUN,
        "imports": WHEEL,
        "requirements": WHEEL,
        "companions": WHEEL,
        "python": WHEEL,
        "torch": WHEEL,
        "launcher": WHEEL,
        "compile_raises": WHEEL,
        "renamed_variables": WHEEL,
        "falls_back": RUN,
        "own": RUN,
        "distributed": SECOND_HAND,
        "autocast_dtype": RUN,
    },
)
"""One process has one device. torch finds the package by itself when it is imported, so nothing is imported for it."""
