"""CUDA over torch_xla to TorchTPU gives what CUDA to TorchTPU gives, but for what the first port settled: listed here, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import changes

MODELS = Path(__file__).resolve().parents[1] / "sample_models"
TPU = {"target": "torchtpu"}
SPELLINGS = (
    (re.compile(r"torch\.device\(\"tpu\"\)(?=, non_blocking|\))"), '"tpu"'),
    (re.compile(r"(?<=device=)torch\.device\(\"tpu\"\)"), '"tpu"'),
    (re.compile(r"'"), '"'),
    (re.compile(r"torch\.utils\.checkpoint\.checkpoint\("), "checkpoint("),
)
"""The same in other words."""

LISTED: dict[str, set[str]] = {
    "accelerator_mnist.py": {
        'device = torch.accelerator.current_accelerator()',
        'device = torch.device("tpu")',
        'use_accel = not args.no_accel',
        'use_accel = not args.no_accel and torch.accelerator.is_available()',
    },
    "amp_classifier.py": {
        'optimizer.step()',
        'scaler.step(optimizer)',
    },
    "char_lm": {
        'if torch.accelerator.is_available():',
        'pass',
    },
    "checkpointed_transformer.py": {
        'optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)',
        'optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)',
        'print(f"running loss {running.item():.4f}, peak memory {(xm.get_memory_info()["peak_bytes_used"] if xr.device_type() == "TPU" else 0) / 2**20:.1f} MB")',
        'print(f"running loss {running.item():.4f}, peak memory {torch.cuda.max_memory_allocated() / 2**20:.1f} MB")',
    },
    "dcgan.py": {
        'use_cuda = True',
        'use_cuda = torch.accelerator.is_available()',
    },
    "dqn.py": {
        'use_cuda = True',
        'use_cuda = torch.accelerator.is_available()',
    },
    "gpt": {
        'extra = dict(fused=False) if use_fused else dict()',
        'extra = dict(fused=True) if use_fused else dict()',
        'if torch.distributed.get_rank() == 0:',
        'init_process_group("tpu_dist")',
        'init_process_group(backend=args.backend)',
        'model = DDP(model)',
        'model = DDP(model, gradient_as_bucket_view=True)',
        'optimizer.step()',
        'scaler.step(optimizer)',
    },
    "imagenet_ddp": {
        'dist.init_process_group("tpu_dist")',
        'dist.init_process_group(backend=args.dist_backend, init_method=args.dist_url,',
        'if torch.distributed.get_rank() == 0:',
        'model = DistributedDataParallel(model)',
        'model = DistributedDataParallel(model, gradient_as_bucket_view=True)',
        'ngpus = 1',
        'ngpus = torch.accelerator.device_count()',
        'world_size=args.world_size, rank=args.rank)',
    },
    "packed_lstm.py": {
        'packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)',
        'packed = pack_padded_sequence(self.embed(tokens).cpu(), lengths, batch_first=True).to("tpu")',
    },
    "segmentation": {
        '@torch.inference_mode()',
        '@torch.no_grad()',
        'optimizer.step()',
        'scaler.step(optimizer)',
    },
    "siamese.py": {
        'cuda = True',
        'cuda = True if torch.accelerator.is_available() else False',
    },
    "vae.py": {
        'args.cuda = not args.no_cuda',
        'args.cuda = not args.no_cuda and torch.accelerator.is_available()',
    },
    "vit_ddp.py": {
        'dist.init_process_group("tpu_dist", init_method=args.dist_url, rank=local_rank, world_size=args.gpus)',
        'if torch.distributed.get_rank() == 0:',
        'model = DDP(model)',
        'model = DDP(model, gradient_as_bucket_view=True)',
        'parser.add_argument("--gpus", type=int, default=1)',
        'parser.add_argument("--gpus", type=int, default=torch.accelerator.device_count())',
    },
}
"""Program -> lines that one of the two ways has and the other has not.

A test for the device is answered by the first port; the scaler is off, so that it steps with the optimizer; fused optimizers, memory readings and packed
sequences and inference mode have forms of their own on torch_xla, which are kept or reported.
"""

SHARDED = {"gpt_fsdp1.py", "gpt_fsdp2.py"}
"""Annotations take the place of FSDP on torch_xla: another program, of which each line is reported."""


def programs() -> list[Path]:
    return sorted(path for path in MODELS.iterdir() if path.suffix == ".py" or path.is_dir())


def sources(path: Path) -> dict[str, str]:
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return {file.relative_to(MODELS).as_posix(): file.read_text(encoding="utf-8") for file in found}


def texts(files: dict[str, str], **settings) -> dict[str, str]:
    return {name: change.after.text for name, change in changes(files, **settings).items()}


def lines(text: str) -> set[str]:
    """Code without imports, comments, and the switch that keeps parameters, whose place may differ."""
    for spelled, plain in SPELLINGS:
        text = spelled.sub(plain, text)
    found = (line.strip() for line in text.splitlines())
    return {line for line in found if line and not re.match(r"#|import |from |torch\.__future__", line) and "set_swap_module" not in line}


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.stem)
def test_over_torch_xla(path):
    files = sources(path)
    direct = texts(files, **TPU)
    over = texts(texts(files, distributed="keep"), source="torch_xla", **TPU)
    differing = {line for name in files for line in lines(direct[name]) ^ lines(over[name])}
    if path.name in SHARDED:
        assert differing
        return
    assert differing == LISTED.get(path.name, set())
