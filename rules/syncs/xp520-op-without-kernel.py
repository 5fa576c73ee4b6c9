"""Functions, methods and modules of torch that come to an operator without a kernel, where nothing falls back to the host."""

import ast
from collections.abc import Iterator

from xlaport import opstatus
from xlaport.opstatus import Missing
from xlaport.ruleset.api import Confidence, Context, Kind, Severity, syntax

FORMS = {
    "huber_loss": "torch.where(d.abs() < delta, d * d / 2, delta * (d.abs() - delta / 2)).mean() of the difference d",
    "smooth_l1_loss": "torch.where(d.abs() < beta, d * d / (2 * beta), d.abs() - beta / 2).mean() of the difference d",
    "nansum": "torch.nan_to_num(x).sum()",
    "trace": "torch.diagonal(x).sum()",
    "mish": "x * torch.tanh(F.softplus(x))",
    "hardshrink": "torch.where(x.abs() > 0.5, x, 0.0)",
    "softshrink": "torch.sign(x) * F.relu(x.abs() - 0.5)",
    "erfc": "1 - torch.erf(x)",
    "hypot": "torch.sqrt(x * x + y * y)",
    "logaddexp": "torch.maximum(x, y) + torch.log1p(torch.exp(-(x - y).abs()))",
    "copysign": "torch.where(y < 0, -x.abs(), x.abs())",
    "std_mean": "(x.std(), x.mean())",
    "var_mean": "(x.var(), x.mean())",
    "median": "torch.sort(x.flatten()).values[(x.numel() - 1) // 2]",
    "kthvalue": "torch.sort(x, dim).values.select(dim, k - 1)",
}
"""The nearest form of operators with kernels, by the last name of the API, in its own words."""

SAME = {
    "HuberLoss": "huber_loss", "SmoothL1Loss": "smooth_l1_loss", "Mish": "mish", "Hardshrink": "hardshrink", "Softshrink": "softshrink",
}
"""Modules that are one function."""

ON_HOST = frozenset({"cpu", "numpy", "tolist", "item"})


def check(context: Context):
    if not context.on_device:
        return
    table = opstatus.missing(context.target.name, context.target.versions)
    found = list(called(context, table))
    named = {id(call) for call, _, _ in found}
    for call, name, missing in (*found, *methods(context, table, named)):
        if not syntax.is_dead(call) and not is_on_host(context, call):
            yield finding(context, call, name, missing)


def called(context: Context, table: dict[str, Missing]) -> Iterator[tuple[ast.Call, str, Missing]]:
    for call in context.facts.of(ast.Call):
        name = next((name for name in context.names.qualified(call.func) if name in table), "")
        if name:
            yield call, name, table[name]


def methods(context: Context, table: dict[str, Missing], named: set[int]) -> Iterator[tuple[ast.Call, str, Missing]]:
    """Methods of what is known to be a tensor."""
    names = {name.removeprefix("torch.Tensor."): entry for name, entry in table.items() if name.startswith("torch.Tensor.")}
    for call in context.calls_of_method(*names.keys() & context.values.calls_by_last_name.keys()):
        if id(call) not in named and Kind.TENSOR in context.values.kind(call.func.value):
            yield call, f"torch.Tensor.{call.func.attr}", names[call.func.attr]


def is_on_host(context: Context, call: ast.Call) -> bool:
    """`x.cpu().median()`, `torch.median(x.cpu())`, and a variable that was given such a value."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) and not context.names.qualified(call.func) else None
    given = receiver if receiver is not None else next(iter(call.args), None)
    if isinstance(given, ast.Name):
        values = [binding.value for binding in context.names.bindings(given)]
        return bool(values) and all(value is not None and leaves_device(value) for value in values)
    return given is not None and leaves_device(given)


def leaves_device(node: ast.expr) -> bool:
    """Does a chain of methods go through the host last?"""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ON_HOST:
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def finding(context: Context, call: ast.Call, name: str, missing: Missing):
    operators = missing.always or missing.sometimes
    last = name.rpartition(".")[2]
    own = SAME.get(last, last.removesuffix("_"))
    instead = f"use {FORMS[own]}" if own in FORMS else "compute it on the host, .cpu() and back"
    lacks = f"{' and '.join(f'`aten::{operator}`' for operator in operators[:3])}, without a kernel for a TPU"
    if missing.always:
        return context.finding(call, f"`{name}` comes to {lacks}, and raises: {instead}", is_idiom=False)
    message = f"`{name}` comes to {lacks}, for some arguments, and raises there: {instead}"
    return context.finding(call, message, is_idiom=False, severity=Severity.WARNING, confidence=Confidence.LIKELY)
