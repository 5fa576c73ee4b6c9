"""One ordinary file of a model, which loads on any machine without torch_xla."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from xlaport import files
from xlaport.errors import UserError
from xlaport.runtime.fsdp import contents
from xlaport.runtime.fsdp.checkpoint import quiet
from xlaport.runtime.fsdp.store import Store

KINDS = (".safetensors", ".pt", ".pth", ".bin")


def export(source: nn.Module | str | os.PathLike[str], path: str | os.PathLike[str], *, step: int | None = None) -> Path:
    """Write the `state_dict` of a model, or of a directory of checkpoints (the newest, or `step`), to one file on the host.

    `.safetensors` needs the package of that name; `.pt`, `.pth` and `.bin` are for `torch.load`. Every name of a tied
    tensor is in it, so that `model.load_state_dict` is content. A checkpoint is read without torch_xla, and whole tensors
    are put together in the memory of the host. With several hosts, export a checkpoint on one of them.
    """
    target = Path(path)
    if target.suffix not in KINDS:
        raise UserError(f"export: {target} must end with {', '.join(KINDS)}")
    state = whole_state(source) if isinstance(source, nn.Module) else saved_state(source, step)
    with files.replaced(target) as draft:
        write(state, draft, target.suffix)
        draft.chmod(0o666 & ~files.current_umask())
    return target


def whole_state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu() for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


def saved_state(url: str | os.PathLike[str], step: int | None) -> dict[str, torch.Tensor]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader

    store = Store(url)
    saved = store.chosen(step)
    marker = store.read_marker(saved)
    tensors = {name: torch.empty(about["shape"], dtype=getattr(torch, about["dtype"])) for name, about in marker["tensors"].items() if name.startswith(contents.MODEL)}
    with quiet():
        dcp.load(tensors, storage_reader=FsspecReader(store.full(saved.name)), no_dist=True)
    state = {name.removeprefix(contents.MODEL): value for name, value in tensors.items()}
    return state | {name: state[canonical] for name, canonical in marker["tied"].items()}


def write(state: dict[str, torch.Tensor], path: Path, suffix: str) -> None:
    if suffix != ".safetensors":
        torch.save(state, path)
        return
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise UserError("export: a .safetensors file needs the package safetensors; or name a .pt file") from None
    save_file({name: value.clone().contiguous() for name, value in state.items()}, path, metadata={"format": "pt"})
