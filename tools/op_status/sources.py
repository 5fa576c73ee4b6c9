"""Calls to measure, taken from the tables PyTorch tests itself with.

`op_db`, `module_db` and `optim_db` live in `torch.testing._internal` and need the
package `expecttest`; they hold sample inputs for about 700 operators, 110 modules
and 15 optimizers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .probe import Call, Job

SAMPLES = 12
"""Calls measured for an operator, the most varied of its samples."""

INPLACE_SAMPLES = 3
MODULE_SAMPLES = 5
_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
_CPU = torch.device("cpu")

_NOT_COMPARABLE = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
    "sparse.sampled_addmm",
}  # fmt: skip
"""Operators that leave memory as it was."""


def varied(calls: list[Call], count: int) -> list[Call]:
    """Calls that bring new arguments first, then the others, evenly thinned out."""
    seen: set[str] = set()
    fresh, others = [], []
    for call in calls:
        (others if seen.issuperset(call.features) else fresh).append(call)
        seen.update(call.features)
    return _thinned(fresh, count) + _thinned(others, count - min(count, len(fresh)))


def _thinned(calls: list[Call], count: int) -> list[Call]:
    if len(calls) <= count:
        return calls
    return [calls[index * len(calls) // count] for index in range(count)]


def literal(value: Any) -> str:
    """A short spelling of an argument: `float32[2, 3]` for a tensor."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    return getattr(value, "__name__", None) or repr(value)


def argument_names(function: Callable[..., Any], schema_name: str, count: int) -> list[str]:
    """Names of the first `count` positional arguments, from the signature or from the operator's schema."""
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        names = [parameter.name for parameter in parameters]
    except (TypeError, ValueError):
        names = _schema_names(schema_name, count)
    return names[:count] + [f"argument {index + 1}" for index in range(len(names), count)]


def _schema_names(schema_name: str, count: int) -> list[str]:
    packet = getattr(torch.ops.aten, schema_name.removeprefix("nn.functional.").replace(".", "_"), None)
    if packet is None:
        return []
    schemas = (getattr(packet, overload)._schema for overload in packet.overloads())
    return next(([a.name for a in s.arguments] for s in schemas if len(s.arguments) >= count), [])


def argument_features(named: Iterable[tuple[str, Any]]) -> list[str]:
    """What a reader can recognise a call by."""
    found = []
    for name, value in named:
        if isinstance(value, torch.Tensor):
            found.append(f"{name} is {value.dim()}-dimensional")
            found.append(f"{name} is {str(value.dtype).removeprefix('torch.')}")
        elif not isinstance(value, (torch.device, torch.nn.Module)):
            found.append(f"{name}={literal(value)[:40]}")
    return found


def call_text(positional: Iterable[Any], keyword: dict[str, Any]) -> str:
    parts = [literal(value) for value in positional]
    parts += [f"{name}={literal(value)}" for name, value in keyword.items() if not isinstance(value, torch.device)]
    text = f"({', '.join(parts)})"
    return text if len(text) <= 100 else text[:96] + " ...)"


def _usable(tree: Any) -> bool:
    """Empty tensors are a corner of their own, and a host generator cannot drive a device op."""
    leaves = pytree.tree_leaves(tree)
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        return False
    return all(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided)


def _typical(samples: list[Any], main_input: Callable[[Any], Any]) -> list[Any]:
    """Leaves out 0-dimensional inputs where there are others: they are a corner that many kernels miss."""
    return [s for s in samples if not (isinstance(t := main_input(s), torch.Tensor) and t.dim() == 0)] or samples


def _with_device(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _CPU if name == "device" else value for name, value in kwargs.items()}


# --- operators


def operator_apis(info: Any) -> tuple[str, ...]:
    names = [info.name, *(alias.name for alias in info.aliases)]
    plain = info.name.removeprefix("nn.functional.")
    if plain in dir(torch.ops.aten):
        names.append(plain)
    candidates = [f"{prefix}.{name}" for prefix in ("torch", "torch.Tensor") for name in dict.fromkeys(names)]
    return tuple(filter(_resolves, candidates))


def _resolves(qualified: str) -> bool:
    value: Any = torch
    for part in qualified.split(".")[1:]:
        value = getattr(value, part, None)
    return callable(value)


def inplace_apis(info: Any) -> tuple[str, ...]:
    plain = [name.removeprefix("nn.functional.") for name in (info.name, *(alias.name for alias in info.aliases))]
    prefixes = ("torch", "torch.Tensor", "torch.nn.functional")
    names = [f"{prefix}.{base}_" for base in plain if "." not in base for prefix in prefixes]
    return tuple(filter(_resolves, names))


def _is_random(info: Any) -> bool:
    """The table wraps random operators so that they leave the generator as it was."""
    code = getattr(info.op, "__code__", None)
    return code is not None and "wrapper_set_seed" in code.co_names


def _run_sample(function: Callable[..., Any]) -> Callable[[Any, torch.device], Any]:
    return lambda inputs, device: function(inputs[0], *inputs[1], **inputs[2])


def _run_inplace(function: Callable[..., Any]) -> Callable[[Any, torch.device], Any]:
    return lambda inputs, device: function(inputs[0].clone(), *inputs[1], **inputs[2])


def _sample_call(info: Any, sample: Any, apis: tuple[str, ...], runner: Any, function: Any) -> Call:
    keyword = _with_device(sample.kwargs)
    positional = (sample.input, *sample.args)
    named = zip(argument_names(info.op, info.name, len(positional)), positional)
    features = argument_features([*named, *keyword.items()])
    if info.variant_test_name:
        features.append(f"variant {info.variant_test_name}")
    return Call(
        apis, (sample.input, list(sample.args), keyword), runner(function), call_text(positional, keyword), tuple(features),
        finish=sample.output_process_fn_grad or (lambda output: output),
        comparable=info.name not in _NOT_COMPARABLE and not _is_random(info),
    )  # fmt: skip


def operator_calls(info: Any) -> list[Call]:
    dtype = next((dtype for dtype in _DTYPES if dtype in (info.dtypes or ())), torch.float32)
    needs_grad = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    torch.manual_seed(0)
    given = info.sample_inputs("cpu", dtype, requires_grad=needs_grad)
    samples = _typical([s for s in given if _usable((s.input, s.args, s.kwargs))], lambda sample: sample.input)
    calls = _variant_calls(info, samples, operator_apis(info), info.op, _run_sample, SAMPLES)
    if info.inplace_variant:
        fitting = [s for s in samples if isinstance(s.input, torch.Tensor) and not s.broadcasts_input]
        calls += _variant_calls(info, fitting, inplace_apis(info), info.inplace_variant, _run_inplace, INPLACE_SAMPLES)
    return calls


def _variant_calls(info: Any, samples: list[Any], apis: tuple[str, ...], function: Any, runner: Any, count: int) -> list[Call]:
    return varied([_sample_call(info, sample, apis, runner, function) for sample in samples], count) if apis else []


def operator_jobs() -> list[Job]:
    from torch.testing._internal.common_methods_invocations import op_db

    public = [info for info in op_db if operator_apis(info) or (info.inplace_variant and inplace_apis(info))]
    return [Job("op_db", info.formatted_name, lambda info=info: operator_calls(info)) for info in public]


# --- modules


def _run_module(inputs: Any, device: torch.device) -> Any:
    module, positional, keyword = inputs
    return module(*positional, **keyword)


def module_calls(info: Any) -> list[Call]:
    torch.manual_seed(0)
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
    runnable = [sample for sample in samples if sample.forward_input is not None]
    typical = _typical(runnable, lambda sample: next(iter(sample.forward_input.args), None))
    return varied([_module_call(info, sample) for sample in typical], MODULE_SAMPLES)


def _module_call(info: Any, sample: Any) -> Call:
    made, given = sample.constructor_input, sample.forward_input
    module = info.module_cls(*made.args, **made.kwargs).train()
    names = argument_names(info.module_cls, "", len(made.args))
    features = argument_features([*zip(names, made.args), *made.kwargs.items()])
    features += argument_features([(f"input {index + 1}", value) for index, value in enumerate(given.args)])
    features += argument_features(given.kwargs.items())
    return Call(
        (f"torch.nn.{info.module_cls.__name__}",), (module, list(given.args), _with_device(given.kwargs)), _run_module,
        call_text(made.args, made.kwargs), tuple(features),
    )  # fmt: skip


def module_jobs() -> list[Job]:
    from torch.testing._internal.common_modules import module_db

    return [Job("module_db", info.module_cls.__name__, lambda info=info: module_calls(info)) for info in module_db]


# --- optimizers


_FEW_ITERATIONS = {torch.optim.LBFGS: {"max_iter": 2}}
"""Every iteration of LBFGS compiles anew."""


def _run_optimizer(optimizer_class: type, keyword: dict[str, Any]) -> Callable[[Any, torch.device], Any]:
    def run(parameters: list[torch.Tensor], device: torch.device) -> Any:
        optimizer = optimizer_class(parameters, **keyword)
        for _ in range(2):
            optimizer.step(_closure(optimizer, parameters))
        return [parameter.detach() for parameter in parameters]

    return run


def _closure(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
    def closure() -> torch.Tensor:
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = sum(parameter.square().sum() for parameter in parameters)
            loss.backward()
        return loss

    return closure


def optimizer_calls(info: Any) -> list[Call]:
    torch.manual_seed(0)
    parameters = [torch.rand(3, 4).requires_grad_(), torch.rand(2, 3).requires_grad_()]
    calls = []
    for sample in info.optim_inputs_func(device="cpu"):
        keyword = {**_FEW_ITERATIONS.get(info.optim_cls, {}), **sample.kwargs}
        run = _run_optimizer(info.optim_cls, keyword)
        features = tuple(argument_features(keyword.items()))
        calls.append(Call((f"torch.optim.{info.optim_cls.__name__}",), parameters, run, call_text((), keyword), features))
    return calls


def optimizer_jobs() -> list[Job]:
    from torch.testing._internal.common_optimizers import optim_db

    return [Job("optim_db", info.optim_cls.__name__, lambda info=info: optimizer_calls(info)) for info in optim_db]
