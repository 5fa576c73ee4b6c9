"""Facts about torch's functions and methods that the values of a step need. Measured on torch_xla 2.9."""

from __future__ import annotations

import ast
from functools import lru_cache

from xlaport import opstatus
from xlaport.findings import Effect
from xlaport.opstatus import Status

READS = frozenset({"item", "tolist", "numpy", "__float__", "__int__", "__bool__", "is_nonzero", "__index__"})
"""Methods of a tensor that give a Python value."""

HOST_BUILTINS = frozenset({"float", "int", "bool", "min", "max", "sorted", "any", "all", "str", "repr", "format", "print", "round", "complex", "range", "hash"})
"""Builtins that read an element; `abs`, `sum`, `len`, `pow`, `zip`, `enumerate`, `reversed` do not."""

METADATA = frozenset({"dim", "size", "numel", "ndimension", "nelement", "element_size", "is_floating_point", "is_contiguous", "stride", "get_device", "is_complex", "type", "data_ptr", "untyped_storage"})
FACTORIES = frozenset("tensor as_tensor from_numpy zeros ones empty full rand randn randint randperm arange linspace logspace eye tril_indices triu_indices normal".split())
SHAPED = frozenset({"zeros", "ones", "empty", "rand", "randn", "arange", "full", "randperm", "linspace", "eye", "randint", "logspace"})
"""Factories whose numbers are a shape."""

BOOLEAN = frozenset("eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isfinite isin any all bool isclose".split())
INTEGER = frozenset("argmax argmin argsort long int randint randperm searchsorted bucketize count_nonzero".split())
REDUCTIONS = frozenset("sum mean prod std var norm amax amin logsumexp median mode nanmean nansum count_nonzero all any argmax argmin max min".split())

DATA_SHAPED = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"})
"""Ops whose result has as many elements as the data say; each runs on the host."""

POSITION_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "roll": (0,), "tril": (0,), "triu": (0,), "narrow": (1, 2), "select": (1,), "diagonal": (0,), "unfold": (1, 2), "diag": (0,),
    "threshold": (0,), "index_fill": (1,), "split": (0,), "chunk": (0,), "topk": (0,), "kthvalue": (0,), "repeat_interleave": (0,),
    "renorm": (0,), "rot90": (0,), "logit": (0,), "cumsum": (), "pow": (0,), "float_power": (0,), "pow_": (0,), "bitwise_left_shift": (0,),
    "narrow_copy": (1, 2), "select_scatter": (2,), "slice_scatter": (2, 3), "diag_embed": (0,), "norm": (0,), "pad": (0, 2), "layer_norm": (4,),
    "view": (0, 1, 2, 3), "reshape": (0, 1, 2, 3), "expand": (0, 1, 2, 3), "repeat": (0, 1, 2, 3), "tile": (0, 1, 2), "new_zeros": (0, 1, 2),
    "new_ones": (0, 1, 2), "new_empty": (0, 1, 2), "new_full": (0,), "interpolate": (0, 1), "upsample": (0, 1), "one_hot": (0,), "vector_norm": (0,),
    "adaptive_avg_pool2d": (0,), "adaptive_max_pool2d": (0,), "unflatten": (1,), "cat": (), "swapaxes": (),
}
"""Method (a function has its tensor first) -> arguments, counted after the tensor, that become constants of the graph."""

POSITION_KEYWORDS = frozenset({
    "shifts", "diagonal", "start", "length", "index", "k", "size", "scale_factor", "repeats", "threshold", "offset", "exponent", "split_size",
    "chunks", "eps", "p", "ord", "num_classes", "pad", "value", "output_size", "sections",
})
POSITION_KEYWORD_OF = {"eps": frozenset({"layer_norm"}), "p": frozenset({"norm", "renorm"}), "value": frozenset({"pad"}), "ord": frozenset({"vector_norm", "norm"})}
"""Keywords that are baked in for these functions only: `dropout(p=...)` and `addcmul(value=...)` are parameters of the graph."""

TENSOR_ARGUMENT_OK = frozenset({"repeat_interleave"})


@lru_cache(maxsize=None)
def status_of(name: str) -> opstatus.OpStatus | None:
    return opstatus.load().lookup(name)


def goes_to_host(function: str, method: str, call: ast.Call, given: dict, rank: int | None) -> str:
    """`forward`, `backward`, `reads` (lowered, but it reads a value back) or empty: where an op runs on the host, for the arguments of this call."""
    special = SPECIAL.get(method)
    if special is not None:
        return special(call, given, rank)
    for name in (function,) if function else (f"torch.Tensor.{method}", f"torch.{method}"):
        status = status_of(name)
        if status is not None:
            if status.status is Status.SYNC:
                return "reads"
            if status.status is not Status.FALLBACK and not (status.status is Status.ERROR and status.forward):
                return ""
            return "forward" if status.forward else "backward"
    return ""


def goes_wrong(name: str, rank: int | None, dim1=None, dim2=None) -> Effect | None:
    """Wrong diagonals of the first two of several dimensions; crashes for tensors without a batch."""
    if rank is None:
        return None
    if name == "diagonal" and rank > 2:
        dims = [default if given is None else given.constant[0] if given.constant else None for given, default in ((dim1, 0), (dim2, 1))]
        return Effect.WRONG_RESULT if None not in dims and {dim % rank for dim in dims} == {0, 1} else None
    crashes = name in {"cross_entropy", "nll_loss"} and rank == 1 or name == "pixel_shuffle" and rank == 3
    return Effect.ERROR if crashes else None


def _multinomial(call, given, rank):
    count = given.get("num_samples", given.get(0, 1))
    replacement = given.get("replacement", given.get(1, False))
    return "" if count == 1 or replacement is True else "forward"


def _round(call, given, rank):
    return "forward" if "decimals" in given else ""


def _addmm(call, given, rank):
    return "forward" if any(given.get(name, 1) not in (1, 1.0) for name in ("alpha", "beta")) else ""


def _interpolate(call, given, rank):
    mode = given.get("mode", given.get(2, "nearest"))
    if mode == "area":
        return ""
    if mode in ("bicubic", "nearest-exact", "linear") or given.get("antialias") is True:
        return "forward"
    if rank is not None and mode == "nearest" and rank != 4:
        return "forward"
    return "backward"


def _max_pool(call, given, rank):
    return "forward" if given.get("dilation", 1) not in (1, ...) else ""


def _view(call, given, rank):
    return "forward" if given.get(0, given.get("dtype")) is DTYPE else ""


def _cdist(call, given, rank):
    return "backward"


def _repeat_interleave(call, given, rank):
    return "forward" if given.get("repeats", given.get(0)) is TENSOR else ""


def _embedding(call, given, rank):
    return "forward" if "max_norm" in given and given["max_norm"] is not None else ""


def _never(call, given, rank):
    return ""


TENSOR, DTYPE = object(), object()
"""Stand for a tensor and a dtype among the arguments given."""

SPECIAL = {
    "multinomial": _multinomial, "round": _round, "round_": _round, "addmm": _addmm, "addmm_": _addmm, "interpolate": _interpolate, "upsample": _interpolate,
    "cdist": _cdist, "repeat_interleave": _repeat_interleave, "embedding": _embedding, "nanmean": lambda *_: "forward",
    "linspace": _never, "load": _never, "where": lambda call, given, rank: "forward" if given.get("arguments") == 1 else "",
    "inverse": _never, "inv": _never, "to": _never, "norm": _never, "cummin": lambda *_: "forward", "copy_": _never, "numpy": _never, "nll_loss": _never,
    "adaptive_avg_pool2d": _never, "adaptive_max_pool2d": _never, "adaptive_avg_pool1d": _never, "adaptive_avg_pool3d": _never,
    "max_pool2d": _max_pool, "view": _view,
}
READ_CHECKS = frozenset({"torch.inverse", "torch.linalg.inv", "torch.Tensor.inverse"})
"""Lowered, but they read an error code back."""


MASKS_COMPARED = {
    "TransformerEncoder": (("mask", 1, "is_causal"),),
    "TransformerDecoder": (("tgt_mask", 2, "tgt_is_causal"),),
    "Transformer": (("src_mask", 2, "src_is_causal"), ("tgt_mask", 3, "tgt_is_causal")),
}
"""Layer -> (mask, its position, what says that it is causal): without the latter torch 2.9 compares the mask with a causal one and reads the answer."""
