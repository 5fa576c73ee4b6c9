"""What is assumed of a function's parameters: by annotation, default, name, and how the function uses them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

COUNTERS = frozenset({"i", "it", "idx", "step", "iteration", "batch_idx", "batch_index", "global_step", "cur_iter", "n_iter", "epoch", "batch_i"})
TENSOR_ONLY = frozenset(
    "unsqueeze squeeze permute softmax log_softmax sigmoid detach clamp masked_fill masked_fill_ view_as unbind matmul gather scatter"
    " scatter_add argmax argmin topk requires_grad_ new_zeros new_ones numel is_cuda item logsumexp cumsum backward index_select".split()
)
"""Methods and attributes that little else than a tensor has."""


def used_as_tensors(function: ast.FunctionDef) -> Iterator[str]:
    """Names on which only a tensor's methods are called, or that are indexed in several dimensions: `x[:, 2:]`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            holder = node.value if node.attr in TENSOR_ONLY else None
        elif isinstance(node, ast.Subscript):
            several = isinstance(node.slice, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.slice.elts)
            holder = node.value if several else None
        else:
            continue
        if isinstance(holder, ast.Name):
            yield holder.id


def used_as_mappings(function: ast.FunctionDef) -> Iterator[str]:
    """Names that stand in `x.items()`, `x["key"]`, `"key" in x`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            holder = node.value if node.attr in {"items", "keys"} else None
        elif isinstance(node, ast.Subscript):
            holder = node.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else None
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            holder = node.comparators[0] if isinstance(node.left, ast.Constant) else None
        else:
            continue
        if isinstance(holder, ast.Name):
            yield holder.id


def is_setting(name: str) -> bool:
    """Parameters of `forward` that are settings by their name."""
    return name.startswith(("use_", "return_", "output_", "is_", "with_", "num_", "n_", "do_")) or name in {
        "cfg", "config", "args", "kwargs", "training", "train", "mode", "dim", "scale", "size", "eps", "reduction", "name", "device", "dtype", "ctx", "opt", "state",
    }
