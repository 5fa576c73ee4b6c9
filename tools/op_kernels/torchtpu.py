"""What TorchTPU runs on the device, as JSON on standard output. Runs in an environment that holds torch-tpu and expecttest.

`aten`, from the dispatcher, overload by overload, so no TPU is needed. `kernel`: at least one overload is registered for the
device. `composite`: none is, and torch itself makes it of other operators. `none`: neither; it raises, as TorchTPU does not
fall back to the host. A kernel does not prove every data type.

`apis`, the public functions, tensor methods and modules that come to an operator without a kernel, with these operators.
Every call of PyTorch's own test tables (`op_db`, `module_db`) is made on tensors without memory that say they are the
device's, so that torch takes composites apart as it does there, and those that torch alone takes apart are followed too.
`always`: each call that could be made comes to it. `sometimes`: some do. Only forward passes are seen. Functions no call was
found for are named after their operator, where that has a kernel on the CPU. Names of entries (`median`, `HuberLoss`) on the command
line: only these calls are made.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # else libtpu asks the cloud's metadata server for minutes

import torch
import torch_tpu._loader
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = "PrivateUse1"
EXPLICIT, NON_FUNCTIONAL = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"
COMPOSITES = ("CompositeImplicitAutograd", EXPLICIT)
"""Not the non-functional one: it allocates the result and calls the `out=` form, which needs a kernel."""

FOLLOWED = (*COMPOSITES, NON_FUNCTIONAL)
"""In which what an operator is made of is looked at, in the order torch prefers them."""

CHOSEN_ON_DEVICE = ("_scaled_dot_product_", "_fused_sdp_choice")
"""Which of the attention kernels runs is asked of the device itself."""

SAMPLES = 5
"""Calls made of one entry of the tables, evenly thinned out."""

LIMIT, WAIT = 60, 600
"""Seconds of the processor, and of the clock, an entry may take; a call that waits for the device never ends."""

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
HAS_KERNEL = torch._C._dispatch_has_kernel_for_dispatch_key
PREFIXES = {"torch": "", "torch.Tensor": "", "torch.nn.functional": "", "torch.linalg": "linalg_", "torch.fft": "fft_", "torch.special": "special_"}
"""Namespace -> what stands before the names of its operators."""


# -- the dispatcher


def kind(overloads: list[str]) -> str:
    """How the overloads of one operator resolve on the device."""
    if any(HAS_KERNEL(name, DEVICE) for name in overloads):
        return "kernel"
    functional = [name for name in overloads if is_functional(name)] or overloads
    if any(HAS_KERNEL(name, key) for name in functional for key in COMPOSITES):
        return "composite"
    return "none"


def is_functional(overload: str) -> bool:
    """Not an `out=` or in-place form: torch makes those of the functional one, so they prove nothing."""
    name, _, variant = overload.partition(".")
    return "out" not in variant and not is_in_place(name)


def is_in_place(name: str) -> bool:
    """`add_`, not `__and__`."""
    return name.endswith("_") and not name.endswith("__")


def operators() -> dict[str, list[str]]:
    """Operator without namespace -> its overloads; in-place and `out=` forms belong to it, as they share its kernel."""
    found: dict[str, list[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten":
            full = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
            found.setdefault(name.removesuffix("_") if is_in_place(name) else name, []).append(full)
    return found


def resolved() -> dict[str, str]:
    """Operator -> its kind, for those with any kernel at all."""
    known = {name: [overload for overload in overloads if torch._C._dispatch_has_kernel(overload)] for name, overloads in operators().items()}
    return {name: kind(overloads) for name, overloads in sorted(known.items()) if overloads}


# -- what a call comes to


@dataclass
class Seen(TorchDispatchMode):
    """Operators a call comes to below autograd, those torch makes of others taken apart; `missing` have no kernel."""

    reached: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    apart: list[str] = field(default_factory=list)
    """What is being taken apart: `detach` is made of itself."""

    def __post_init__(self):
        super().__init__()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        name = function.name()
        if function.namespace != "aten" or name.startswith(tuple("aten::" + start for start in CHOSEN_ON_DEVICE)):
            return function(*arguments, **keywords)
        self.reached.add(name)
        if name not in self.apart and not HAS_KERNEL(name, DEVICE) and not runs_as_out(name):
            composite = next((key for key in FOLLOWED if HAS_KERNEL(name, key)), None)
            if composite is not None:
                return self.taken_apart(name, function, composite, arguments, keywords)
            self.missing.add(base_of(name))
        return function(*arguments, **keywords)

    def taken_apart(self, name: str, function, composite: str, arguments, keywords):
        self.apart.append(name)
        try:
            with self:
                return function._op_dk(getattr(torch._C.DispatchKey, composite), *arguments, **keywords)
        finally:
            self.apart.pop()


def base_of(overload: str) -> str:
    """`aten::huber_loss_.Tensor` -> `huber_loss`."""
    operator = overload.removeprefix("aten::").partition(".")[0]
    return operator.removesuffix("_") if is_in_place(operator) else operator


@cache
def with_out_kernels() -> frozenset[str]:
    """Operators with an `out=` form that has a kernel on the device."""
    schemas = (schema for schema in torch._C._jit_get_all_schemas() if any(argument.is_out for argument in schema.arguments))
    names = (schema.name + (f".{schema.overload_name}" if schema.overload_name else "") for schema in schemas)
    return frozenset(base_of(name) for name in names if name.startswith("aten::") and HAS_KERNEL(name, DEVICE))


def runs_as_out(name: str) -> bool:
    """A functional or in-place form that torch makes of its `out=` form, which has a kernel."""
    return HAS_KERNEL(name, NON_FUNCTIONAL) and base_of(name) in with_out_kernels()


def on_device(tree: Any) -> Any:
    """The arguments as tensors of the device without memory. Under a fake mode."""
    return pytree.tree_map(moved, tree)


def moved(leaf: Any) -> Any:
    if isinstance(leaf, torch.nn.Module):
        return with_parameters_moved(copy.deepcopy(leaf))
    if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
        return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="tpu", requires_grad=leaf.requires_grad)
    return torch.device("tpu") if isinstance(leaf, torch.device) else leaf


def with_parameters_moved(module: torch.nn.Module) -> torch.nn.Module:
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    table[name] = torch.nn.Parameter(moved(value.detach()), value.requires_grad) if table is part._parameters else moved(value)
    return module


@dataclass(frozen=True)
class Call:
    apis: tuple[str, ...]
    inputs: Any
    run: Callable[[Any], Any]


def forward(call: Call) -> Seen | None:
    """What the call comes to on the device; None when it cannot be made there without values."""
    seen = Seen()
    try:
        with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
            inputs = on_device(call.inputs)
            with seen:
                call.run(inputs)
    except Exception:  # noqa: BLE001 - what needs values ends there; what it came to before counts
        return seen if seen.missing else None
    return seen


# -- the tables


@dataclass(frozen=True)
class Entry:
    """One of torch's test tables' entries; its calls are made when they are asked for."""

    name: str
    calls: Callable[[], list[Call]]


def all_entries() -> list[Entry]:
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    functions = [Entry(info.formatted_name, lambda info=info: operator_calls(info)) for info in op_db]
    return functions + [Entry(info.module_cls.__name__, lambda info=info: module_calls(info)) for info in module_db]


def operator_calls(info: Any) -> list[Call]:
    dtype = next((dtype for dtype in DTYPES if dtype in (info.dtypes or ())), torch.float32)
    needs_grad = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = [sample for sample in info.sample_inputs("cpu", dtype, requires_grad=needs_grad) if is_usable((sample.input, sample.args, sample.kwargs))]
    calls = [sample_call(names_of(info), info.op, sample) for sample in thinned(samples)]
    if info.inplace_variant:
        fitting = [sample for sample in samples if isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input]
        run = lambda first, *others, **keywords: info.inplace_variant(first.clone(), *others, **keywords)  # noqa: E731
        calls += [sample_call(in_place_names(info), run, sample) for sample in thinned(fitting)]
    return calls


def is_usable(tree: Any) -> bool:
    """Empty tensors are a corner of their own, and so are numbers in the place of tensors."""
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return bool(leaves) and all(leaf.layout is torch.strided and leaf.numel() and not leaf.is_quantized for leaf in leaves)


def thinned(samples: list[Any]) -> list[Any]:
    return samples if len(samples) <= SAMPLES else [samples[index * len(samples) // SAMPLES] for index in range(SAMPLES)]


def sample_call(apis: tuple[str, ...], function: Callable, sample: Any) -> Call:
    keywords = {name: torch.device("cpu") if name == "device" else value for name, value in sample.kwargs.items()}
    return Call(apis, (sample.input, list(sample.args), keywords), lambda inputs: function(inputs[0], *inputs[1], **inputs[2]))


def names_of(info: Any) -> tuple[str, ...]:
    names = [info.name, *(alias.name for alias in info.aliases)]
    return existing(f"{prefix}.{name}" for prefix in ("torch", "torch.Tensor") for name in names if not name.startswith("torch."))


def in_place_names(info: Any) -> tuple[str, ...]:
    plain = [name.removeprefix("nn.functional.") for name in (info.name, *(alias.name for alias in info.aliases))]
    return existing(f"{prefix}.{name}_" for name in plain if "." not in name for prefix in ("torch", "torch.Tensor", "torch.nn.functional"))


def existing(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if callable(resolve(name)))


def resolve(qualified: str) -> Any:
    value: Any = torch
    for part in qualified.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def module_calls(info: Any) -> list[Call]:
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
    return [module_call(info, sample) for sample in thinned([sample for sample in samples if sample.forward_input is not None])]


def module_call(info: Any, sample: Any) -> Call:
    made, given = sample.constructor_input, sample.forward_input
    module = info.module_cls(*made.args, **made.kwargs).train()
    run = lambda inputs: inputs[0](*inputs[1], **inputs[2])  # noqa: E731
    return Call((f"torch.nn.{info.module_cls.__name__}",), (module, list(given.args), dict(given.kwargs)), run)


def named_after(kinds: dict[str, str], runs: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Public functions named after an operator that has a kernel on the CPU and none on the device; `runs` were seen to do without."""
    table = operators()
    for namespace, prefix in PREFIXES.items():
        for name in dir(resolve(namespace)):
            operator = prefix + (name.removesuffix("_") if is_in_place(name) else name)
            if name.startswith("_") or kinds.get(operator) != "none" or operator in runs or not callable(getattr(resolve(namespace), name)):
                continue
            if any(torch._C._dispatch_has_kernel(overload) and HAS_KERNEL(overload, "CPU") for overload in table[operator]):
                yield f"{namespace}.{name}", operator


def seen_in(entry: Entry) -> list[tuple[list[str], list[str], list[str]]]:
    """For each of its calls that can be made: its names, the operators without a kernel it comes to, and those that run."""
    torch.manual_seed(0)
    try:
        calls = entry.calls()
    except Exception:  # noqa: BLE001 - some need packages that are not there
        return []
    found = []
    for call in calls:
        seen = forward(call)
        if seen is not None:
            found.append((list(call.apis), sorted(seen.missing), sorted({base_of(name) for name in seen.reached} - seen.missing)))
    return found


def measured(only: list[str]) -> tuple[dict[str, list[list[str]]], frozenset[str]]:
    """Public name -> what is missing in each of its calls; and the operators that were seen to run. `only`: of these entries, all when empty.

    In a process of their own: a call that asks the device for a value aborts it. Its entry is left out, and the next go on.
    """
    found: dict[str, list[list[str]]] = defaultdict(list)
    runs: set[str] = set()
    table, done = [entry for entry in all_entries() if not only or entry.name in only], 0
    while done < len(table):
        for line in lines_of_child(table[done:]):
            for apis, missing, run in json.loads(line):
                runs.update(run)
                for api in apis:
                    found[api].append(missing)
            done += 1
        if done < len(table):
            print("without an answer:", table[done].name, file=sys.stderr)
            done += 1
    return found, frozenset(runs)


def lines_of_child(table: list[Entry]) -> Iterator[str]:
    """One line of JSON an entry, until the child ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with open(writing, "w", encoding="utf-8") as out:
            for entry in table:
                signal.setitimer(signal.ITIMER_PROF, LIMIT)
                signal.alarm(WAIT)
                print(json.dumps(seen_in(entry)), file=out, flush=True)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        yield from (line for line in lines if line.endswith("\n"))
    os.waitpid(child, 0)


def entries(kinds: dict[str, str], only: list[str]) -> dict[str, dict[str, list[str]]]:
    found, runs = measured(only)
    table: dict[str, dict[str, list[str]]] = {}
    for api, calls in found.items():
        if any(calls):
            table[api] = {"always" if all(calls) else "sometimes": sorted({name for missing in calls for name in missing})}
    for api, operator in () if only else named_after(kinds, runs):
        if api not in found:
            table[api] = {"always": [operator]}
    return dict(sorted(table.items()))


def main() -> None:
    warnings.simplefilter("ignore")
    with redirect_stdout(sys.stderr):
        torch_tpu._loader._init_device("tpu")  # what `import torch` does where it finds a TPU
        kinds = resolved()
        apis = entries(kinds, sys.argv[1:])
    listed = {how: [name for name, its in kinds.items() if its == how] for how in ("kernel", "composite", "none")}
    print(json.dumps({"versions": {"torch-tpu": version("torch-tpu"), "torch": torch.__version__.partition("+")[0]}, "aten": listed, "apis": apis}))


if __name__ == "__main__":
    main()
