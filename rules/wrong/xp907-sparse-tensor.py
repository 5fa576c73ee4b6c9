"""Sparse tensors, sparse gradients and their optimizer: XLA has no sparse layout."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CONSTRUCTORS = (
    "torch.sparse_coo_tensor", "torch.sparse_csr_tensor", "torch.sparse.FloatTensor", "torch.sparse.LongTensor",
    "torch.cuda.sparse.FloatTensor", "torch.sparse.mm", "torch.spmm", "torch.sparse.sum", "torch.sparse.softmax", "torch.optim.SparseAdam",
)
METHODS = frozenset({"to_sparse", "to_sparse_csr", "to_sparse_coo"})


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if not syntax.is_dead(call) and is_sparse(context, call):
            yield context.finding(call)


def is_sparse(context: Context, call: ast.Call) -> bool:
    if context.refers(call.func, *CONSTRUCTORS):
        return True
    if context.refers(call.func, "torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding"):
        return any(keyword.arg == "sparse" and constant(keyword.value) is True for keyword in call.keywords)
    return isinstance(call.func, ast.Attribute) and call.func.attr in METHODS
