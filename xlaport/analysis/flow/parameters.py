"""What is assumed of a function's parameters: by annotation, default, name, and how the function uses them."""

from __future__ import annotations

import ast

from xlaport.analysis.facts import FUNCTIONS, ModuleFacts, ancestors

COUNTERS = frozenset({"i", "it", "idx", "step", "iteration", "batch_idx", "batch_index", "global_step", "cur_iter", "n_iter", "epoch", "batch_i"})
TENSOR_ONLY = frozenset(
    "unsqueeze squeeze permute softmax log_softmax sigmoid detach clamp masked_fill masked_fill_ view_as unbind matmul gather scatter"
    " scatter_add argmax argmin topk requires_grad_ new_zeros new_ones numel is_cuda item logsumexp cumsum backward index_select".split()
)
"""Methods and attributes that little else than a tensor has."""


NONE: frozenset[str] = frozenset()


class Uses:
    """How the functions of one file use names. Read in one pass over the file: functions hold one another."""

    def __init__(self, facts: ModuleFacts):
        self._tensors: dict[ast.AST, set[str]] = {}
        self._mappings: dict[ast.AST, set[str]] = {}
        for node in facts.of(ast.Attribute):
            if node.attr in TENSOR_ONLY:
                add(self._tensors, node, node.value)
            elif node.attr in {"items", "keys"}:
                add(self._mappings, node, node.value)
        for node in facts.of(ast.Subscript):
            if isinstance(node.slice, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.slice.elts):
                add(self._tensors, node, node.value)
            elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                add(self._mappings, node, node.value)
        for node in facts.of(ast.Compare):
            if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(node.left, ast.Constant):
                add(self._mappings, node, node.comparators[0])

    def as_tensors(self, function: ast.AST) -> frozenset[str] | set[str]:
        """Names on which only a tensor's methods are called, or that are indexed in several dimensions: `x[:, 2:]`."""
        return self._tensors.get(function, NONE)

    def as_mappings(self, function: ast.AST) -> frozenset[str] | set[str]:
        """Names that stand in `x.items()`, `x["key"]`, `"key" in x`."""
        return self._mappings.get(function, NONE)


def add(table: dict[ast.AST, set[str]], node: ast.AST, holder: ast.expr) -> None:
    """A use of a name, for each function around it."""
    if isinstance(holder, ast.Name):
        for parent in ancestors(node):
            if isinstance(parent, FUNCTIONS):
                table.setdefault(parent, set()).add(holder.id)


def is_setting(name: str) -> bool:
    """Parameters of `forward` that are settings by their name."""
    return name.startswith(("use_", "return_", "output_", "is_", "with_", "num_", "n_", "do_")) or name in {
        "cfg", "config", "args", "kwargs", "training", "train", "mode", "dim", "scale", "size", "eps", "reduction", "name", "device", "dtype", "ctx", "opt", "state",
    }
