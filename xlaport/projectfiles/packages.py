"""What is known about packages: which exist for CUDA only, what stands in for them, and how a requirement is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlaport.targets import PROFILES
from xlaport.targets.base import Target

REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)"
    r"(?P<extras>\s*\[[^\]]*\])?"
    r"(?:\s*@\s*(?P<url>\S+)|(?P<gap>\s*)\(?(?P<spec>(?:(?:===|[<>=!~]=|[<>])\s*[^\s,;()#]+\s*,?\s*)*)\)?)"
    r"\s*(?:;(?P<marker>[^#]*))?$"
)
CLAUSE = re.compile(r"(===|[<>=!~]=|[<>])\s*([^\s,;()]+)")
NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Requirement:
    """One requirement, with offsets from its own start. `spec` is empty without a version."""

    name: str
    spec: str
    spec_start: int
    spec_end: int
    marker: str
    url: str


def normalized(name: str) -> str:
    """The name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> Requirement | None:
    """A requirement without comment and options; None for paths, options, and what is not understood."""
    found = REQUIREMENT.match(text.rstrip())
    if not found:
        return None
    spec = (found["spec"] or "").rstrip().rstrip(",").rstrip()
    if spec:
        start = found.start("spec")
    else:
        start = found.end("extras") if found["extras"] else found.end("name")
    return Requirement(
        normalized(found["name"]), spec, start, start + len(spec), (found["marker"] or "").strip(), found["url"] or ""
    )


def clause_like(spec: str, clause: str) -> str:
    """The clause, with a blank behind its operator where `spec` has one."""
    return clause.replace("==", "== ") if re.match(r"[<>=!~]+\s", spec) else clause


# -- versions


def version(text: str) -> tuple[int, ...]:
    found = NUMBER.match(text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def stays_in(spec: str, pin: str) -> bool:
    """Does `spec` only allow versions of the series `pin` (`==2.9.*`), or of the range (`>=2.11,<=2.15`), and no CUDA builds?"""
    if not pin.startswith("=="):
        return stays_between(spec, pin)
    series = version(pin.removeprefix("=="))
    after = (*series[:-1], series[-1] + 1)
    above = below = False
    for operator, text in CLAUSE.findall(spec):
        number = version(text)
        if "+" in text:
            return False
        if operator in {"==", "==="}:
            return number[: len(series)] == series
        if operator == "~=":
            return number[: len(series)] == series and len(number) > len(series)
        above = above or operator in {">=", ">"} and number >= series
        below = below or operator in {"<", "<="} and (number <= after if operator == "<" else number < after)
    return above and below


def stays_between(spec: str, pin: str) -> bool:
    """`stays_in` for a range, whose upper end may be open. Minor releases are compared."""
    lowest, highest = bounds(pin)
    above = below = False
    for operator, text in CLAUSE.findall(spec):
        number = version(text)[:2]
        if "+" in text:
            return False
        if operator in {"==", "===", "~="} and (operator != "~=" or len(version(text)) > 2):
            return number >= lowest and (not highest or number <= highest)
        above = above or operator in {">=", ">", "~="} and number >= lowest
        below = below or operator in {"<", "<="} and number <= highest
    return above and (below or not highest)


def bounds(pin: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ends of a clause: `>=2.11,<=2.15` -> (2, 11), (2, 15), `==2.9.*` -> (2, 9), (2, 9); an open end is ()."""
    ends = {operator: version(text)[:2] for operator, text in CLAUSE.findall(pin)}
    exact = ends.get("==", ())
    return exact or ends.get(">=", ()), exact or ends.get("<=", ())


def is_older(spec: str, pin: str) -> bool:
    """Does `spec` hold the package below the series of `pin`?"""
    series = bounds(pin)[0]
    return any(
        operator in {"==", "===", "<", "<=", "~="} and version(text)[: len(series)] < series for operator, text in CLAUSE.findall(spec)
    )


def is_newer(spec: str, pin: str) -> bool:
    """Does `spec` hold the package above the series of `pin`?"""
    series = bounds(pin)[1]
    return bool(series) and any(
        operator in {"==", "===", ">", ">=", "~="} and version(text)[: len(series)] > series for operator, text in CLAUSE.findall(spec)
    )


def pins(target: Target) -> dict[str, str]:
    """Normalized name -> version clause, for what must move in step with torch."""
    found = [parse(requirement) for requirement in (*target.requirements, *target.companions)]
    return {requirement.name: requirement.spec for requirement in found}


def own_package(target: Target) -> str:
    """The requirement that brings the target's package."""
    return next(text for text in target.requirements if parse(text).name == target.package)


def written_name(target: Target) -> str:
    """The target's package as its requirement spells it: `torch_xla`, `torch-tpu`."""
    return re.match(r"[\w-]+", own_package(target))[0]


def packages_of_others(target: Target) -> frozenset[str]:
    """Packages of other targets, which cannot be installed beside its own."""
    return frozenset(other.package for other in PROFILES.values() if not other.only_reports) - {target.package}


# -- packages


@dataclass(frozen=True)
class Package:
    """A family of packages. `removable`: it cannot be installed, or is of no use, where no CUDA is."""

    pattern: re.Pattern[str]
    advice: str
    removable: bool = False


def family(names: str, advice: str, removable: bool = False) -> Package:
    return Package(re.compile(names), advice, removable)


NVIDIA_LIBRARIES = (
    r"cublas|cuda-(?:nvrtc|runtime|cupti|nvcc|cccl|opencl|profiler-api|sanitizer-api)|cudnn|cudnn-frontend|cufft|cufile|curand|cusolver"
    r"|cusparse|cusparselt|cutlass-dsl|nccl|nvjitlink|nvshmem|nvtx|npp|nvjpeg|nvcomp"
)

FAMILIES = (
    family(rf"nvidia-(?:{NVIDIA_LIBRARIES})(?:-cu\d+)?$|nvidia-[a-z-]+-cu\d+$|nvidia-pyindex$", "part of CUDA", removable=True),
    family(r"(?:pytorch-)?triton$|triton-(?:nightly|rocm|xpu)$", "a compiler for GPUs; write such kernels in Pallas", removable=True),
    family(r"flash-attn(?:-\w+)?$|flashattention$|flash-attention$", "needs nvcc to install; use F.scaled_dot_product_attention", removable=True),
    family(r"xformers$", "CUDA kernels, tied to another torch; use F.scaled_dot_product_attention", removable=True),
    family(r"(?:nvidia-)?apex$", "CUDA extensions; torch.optim.AdamW, nn.LayerNorm and torch.autocast do its work", removable=True),
    family(r"cupy(?:-cuda\d+x?)?$", "arrays on a GPU; NumPy on the host does its work", removable=True),
    family(r"transformer-engine(?:-[\w]+)?$", "layers for NVIDIA GPUs; use nn.Linear under torch.autocast in bfloat16", removable=True),
    family(r"tensorrt(?:-[\w-]+)?$|torch-tensorrt$|torch2trt$|nvidia-tensorrt$|onnx-tensorrt$", "inference on NVIDIA GPUs only", removable=True),
    family(r"pycuda$|cuda-(?:python|bindings|core)$|numba-cuda$|scikit-cuda$", "CUDA from Python; use NumPy on the host", removable=True),
    family(r"nvidia-dali(?:-\w+)*$", "decodes on a GPU; use a DataLoader on the host", removable=True),
    family(r"bitsandbytes$", "has no {runtime} kernels; use AdamW, and bfloat16 where it quantised weights"),
    family(r"deepspeed$|deepspeed-\w+$", "has no {runtime} form; use {sharded_model} for ZeRO"),
    family(r"pynvml$|nvidia-ml-py3?$|py3nvml$|gpustat$|gputil$", "asks the NVIDIA driver; use {memory_tools}"),
    family(
        r"mamba-ssm$|causal-conv1d$|flash-linear-attention$|fla-core$|liger-kernel$|natten$|unsloth$",
        "runs on kernels written for GPUs; use a version in torch operations",
    ),
    family(
        r"torch-(?:scatter|sparse|cluster|spline-conv)$|pyg-lib$",
        "is compiled for one torch version and has no {runtime} kernels; use the scatter operations of torch",
    ),
    family(r"dgl-cu\d+$|dgl-cuda[\d.]*$", "is a CUDA build; install dgl, which runs on the host"),
    family(
        r"(?:cudf|cuml|cugraph|cuspatial|rmm|dask-cudf|pylibcugraph|cugraph-pyg|raft-dask|nx-cugraph)(?:-cu\d+)?$",
        "is RAPIDS for NVIDIA GPUs; use pandas or scikit-learn on the host",
    ),
    family(r"onnxruntime-gpu$", "is a CUDA build; install onnxruntime"),
    family(r"faiss-gpu(?:-cu\d+)?$", "is a CUDA build; install faiss-cpu"),
    family(r"torchtext$", "ended with 0.18, compiled for torch 2.3, and cannot be loaded with later ones; tokenize without it"),
    family(r"fairscale$|megatron-core$|megatron-lm$", "shards with NCCL; use {sharded_model}"),
    family(r"horovod$", "reduces with NCCL; use {reduction}"),
)

OTHER_FRAMEWORKS = re.compile(r"(?:tensorflow|tf-nightly|jax|jaxlib|mxnet|paddlepaddle|nvidia-tensorflow|horovod|keras)(?:-\w+)*$")


def known(name: str) -> Package | None:
    return next((item for item in FAMILIES if item.pattern.match(name)), None)


CUDA_INDEX = re.compile(r"download\.pytorch\.org/(?:whl/(?:nightly/|test/)?(?:cu\d+|torch_stable|torch_nightly|lts)|whl/?(?=[\s'\"]|$))")
"""Where the CUDA wheels of torch lie. `whl/cpu` is not among them."""

CPU_INDEX = re.compile(r"download\.pytorch\.org/whl/(?:nightly/|test/)?cpu")
ONLY_INDEX = frozenset({"-i", "--index-url", "--default-index"})
"""Options that put another index in the place of the package index."""

CUDA_WHEELS_ELSEWHERE = re.compile(r"https?://\S*(?:[+/_-]cu1\d\d|pypi\.ngc\.nvidia\.com|pypi\.nvidia\.com|/cuda)", re.IGNORECASE)
