"""Sparse tensors, sparse gradients and their optimizer: XLA has no sparse layout."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CONSTRUCTORS = (
    "torch.sparse_coo_tensor", "torch.sparse_csr_tensor", "torch.sparse.FloatTensor", "torch.sparse.LongTensor",
    "torch.cuda.sparse.FloatTensor", "torch.sparse.mm", "torch.spmm", "torch.sparse.sum", "torch.sparse.softmax", "torch.optim.SparseAdam",
)
MAKERS = ("sparse_coo_tensor", "sparse_csr_tensor", "sparse.FloatTensor", "sparse.LongTensor", "to_sparse", "to_sparse_csr", "to_sparse_coo")
SPARSE = re.compile("sparse")
METHODS = frozenset({"to_sparse", "to_sparse_csr", "to_sparse_coo"})


def check(context: Context):
    if not context.on_device:
        return
    for call in context.facts.of(ast.Call):
        if not syntax.is_dead(call) and (is_sparse(context, call) or moves_sparse(context, call)):
            yield context.finding(call)


def moves_sparse(context: Context, call: ast.Call) -> bool:
    """`adjacency.to(device)`, where a function of the project made it: the line that raises."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"to", "cuda"} or context.names.qualified(func) or not says_sparse(context):
        return False
    return any(ast.unparse(made.func).endswith(MAKERS) for made in context.values.origins(func.value) if made is not call)


def says_sparse(context: Context) -> bool:
    """Here, or in a file that this one imports or is imported by."""
    path = context.module.source.path
    return context.project.any_mentions(context.project.links.neighbours(path), SPARSE)


def is_sparse(context: Context, call: ast.Call) -> bool:
    if context.refers(call.func, *CONSTRUCTORS):
        return True
    if context.refers(call.func, "torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding"):
        return any(keyword.arg == "sparse" and constant(keyword.value) is True for keyword in call.keywords)
    return isinstance(call.func, ast.Attribute) and call.func.attr in METHODS
