"""The lazy tensors of torch_xla, as far as tracing needs more than its public interface. Nothing else touches `_XLAC`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch_xla
import torch_xla.debug.metrics as metrics
from torch_xla.core import xla_builder

_C = torch_xla._XLAC

FIRST: dict[int, int] = {}
"""Numbers that data has for having been asked for -> the one that it had first."""


def placeholder(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A device tensor without data: an argument of the program, and no memory."""
    return xla_builder.create_placeholder_tensor(tuple(shape), dtype)


def forbid_execution() -> None:
    """From here on an operation that wants a value raises instead of running the graph."""
    _C._set_allow_execution(False)


def tensor_id(tensor: torch.Tensor) -> int:
    """The number of a tensor's present value; an argument of the program has the number of the tensor it came from."""
    return _C._xla_get_tensor_id(tensor)


def is_lazy(tensor: torch.Tensor) -> bool:
    """Is a tensor on the device one of torch_xla's own? Those that dynamo and autograd wrap while they trace are not."""
    try:
        tensor_id(tensor)
    except RuntimeError:
        return False
    return True


def alias_id(tensor: torch.Tensor) -> int:
    """The number of the value that an in-place update replaced. A sync lets the argument of that number be overwritten."""
    return int(re.search(r"AliasID: (\d+)", _C._get_xla_tensor_debug_info(tensor)).group(1))


def argument_ids(outputs: Sequence[torch.Tensor]) -> tuple[list[int], list[torch.Tensor]]:
    """Numbers and values of the program's arguments, in its order. Under SPMD asking gives the data a new number, that of the value returned here."""
    numbers, values = _C._get_tensors_xla_device_data_node(list(outputs), [])
    numbers = [FIRST.get(number, number) for number in numbers]
    FIRST.update(zip(map(tensor_id, values), numbers))
    return numbers, values


def bytecode(outputs: Sequence[torch.Tensor]) -> bytes:
    """The program of these outputs; of an empty list, of every tensor that is alive, hidden ones too."""
    return _C._get_stablehlo(list(outputs), "", [], True)


def text(outputs: Sequence[torch.Tensor]) -> str:
    return _C._get_stablehlo(list(outputs), "", [], False).decode()


def newest_id() -> int:
    """A number above those of all tensors so far."""
    return tensor_id(placeholder((), torch.float32))


def pending(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Those that a sync would compute."""
    return [tensor for tensor, waits in zip(tensors, _C._check_tensor_need_materialization(list(tensors))) if waits]


def waiting() -> int:
    """How many tensors a sync would compute, those that Python cannot reach among them."""
    return sum(_C._check_device_tensor_need_materialization(_C._xla_get_default_device()))


def host_results() -> int:
    """How many operations ran on the host so far, and left their results as if they had been uploaded."""
    return sum(metrics.counter_value(operator) or 0 for operator in metrics.executed_fallback_ops())


def seed_id() -> int | None:
    """The number of the random seed on the device, an argument of programs that draw numbers."""
    try:
        return _C._get_seed_info_id()
    except RuntimeError:
        return None
