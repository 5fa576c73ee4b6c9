"""Sparse tensors, sparse gradients and their optimizer: XLA has no sparse layout."""

import ast
import re

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

CONSTRUCTORS = (
    "torch.sparse_coo_tensor", "torch.sparse_csr_tensor", "torch.sparse.FloatTensor", "torch.sparse.LongTensor",
    "torch.cuda.sparse.FloatTensor", "torch.sparse.mm", "torch.spmm", "torch.sparse.sum", "torch.sparse.softmax", "torch.optim.SparseAdam",
)
EMBEDDINGS = ("torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding")
MAKERS = ("sparse_coo_tensor", "sparse_csr_tensor", "sparse.FloatTensor", "sparse.LongTensor", "to_sparse", "to_sparse_csr", "to_sparse_coo")
SPARSE = re.compile("sparse")
METHODS = frozenset({"to_sparse", "to_sparse_csr", "to_sparse_coo"})


def check(context: Context):
    if not context.on_device:
        return
    made = [*context.calls(*CONSTRUCTORS), *context.calls_of_method(*METHODS), *filter(asks_for_sparse, context.calls(*EMBEDDINGS))]
    moved = context.calls_of_method("to", "cuda") if says_sparse(context) else ()
    for call in [*made, *(call for call in moved if moves_sparse(context, call))]:
        if not syntax.is_dead(call):
            yield context.finding(call)


def moves_sparse(context: Context, call: ast.Call) -> bool:
    """`adjacency.to(device)`, where a function of the project made it: the line that raises."""
    func = call.func
    return not context.names.qualified(func) and any(ast.unparse(made.func).endswith(MAKERS) for made in context.values.origins(func.value) if made is not call)


def says_sparse(context: Context) -> bool:
    """Here, or in a file that this one imports or is imported by."""
    path = context.module.source.path
    return context.project.any_mentions(context.project.links.neighbours(path), SPARSE)


def asks_for_sparse(call: ast.Call) -> bool:
    """Gradients of an embedding that are sparse."""
    return any(keyword.arg == "sparse" and constant(keyword.value) is True for keyword in call.keywords)
