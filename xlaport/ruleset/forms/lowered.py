"""Ops that run on the host, written with ops that XLA lowers."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from xlaport.analysis.flow.events import Event
from xlaport.analysis.values import constant
from xlaport.findings import Fix
from xlaport.ruleset.api import Context
from xlaport.ruleset.forms.common import is_pure, unsafe


@dataclass(frozen=True)
class Form:
    """`parameters` in torch's order, the tensor first. `templates`: the parameters that are given -> what to write."""

    parameters: tuple[str, ...]
    templates: dict[frozenset[str], str]


def form(parameters: str, **templates: str) -> Form:
    """Keyword `x_y` is the template where x and y are given."""
    return Form(tuple(parameters.split()), {frozenset(given.split("_")): template for given, template in templates.items()})


FORMS = {
    "hypot": form("x y", x_y="torch.sqrt({x} * {x} + {y} * {y})"),
    "logaddexp": form("x y", x_y="torch.maximum({x}, {y}) + torch.log1p(torch.exp(-({x} - {y}).abs()))"),
    "copysign": form("x y", x_y="torch.where({y} < 0, -{x}.abs(), {x}.abs())"),
    "signbit": form("x", x="{x} < 0"),
    "nansum": form("x", x="torch.where(torch.isnan({x}), 0, {x}).sum()"),
    "nanmean": form(
        "x dim keepdim",
        x="torch.where(torch.isnan({x}), 0, {x}).sum() / (~torch.isnan({x})).sum()",
        x_dim="torch.where(torch.isnan({x}), 0, {x}).sum({dim}) / (~torch.isnan({x})).sum({dim})",
        x_dim_keepdim="torch.where(torch.isnan({x}), 0, {x}).sum({dim}, keepdim={keepdim}) / (~torch.isnan({x})).sum({dim}, keepdim={keepdim})",
    ),
    "bucketize": form("x edges", x_edges="({x}.unsqueeze(-1) > {edges}).sum(-1)"),
    "isin": form("x values", x_values="({x}.unsqueeze(-1) == {values}).any(-1)"),
    "addmm": form(
        "input x y beta alpha",
        input_x_y_beta="{beta} * {input} + {x} @ {y}", input_x_y_alpha="{input} + {alpha} * ({x} @ {y})",
        input_x_y_beta_alpha="{beta} * {input} + {alpha} * ({x} @ {y})",
    ),
    "huber_loss": form(
        "x y reduction delta",
        x_y="torch.nn.functional.smooth_l1_loss({x}, {y})", x_y_reduction="torch.nn.functional.smooth_l1_loss({x}, {y}, reduction={reduction})",
        x_y_delta="{delta} * torch.nn.functional.smooth_l1_loss({x}, {y}, beta={delta})",
        x_y_reduction_delta="{delta} * torch.nn.functional.smooth_l1_loss({x}, {y}, reduction={reduction}, beta={delta})",
    ),
}
NAMES = {"input": "x", "self": "x", "other": "y", "target": "y", "mat1": "x", "mat2": "y", "boundaries": "edges", "elements": "x", "test_elements": "values"}
"""torch's names of parameters -> those of the forms."""


def lowered(context: Context, event: Event) -> Fix | None:
    call = event.node
    if not isinstance(call, ast.Call):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_function = bool(context.names.qualified(call.func))
    if name == "round":
        return rounded(context, call, is_function)
    found = FORMS.get(name)
    given = arguments(call, found, is_function) if found is not None else None
    if given is None or not all(is_pure(context, event, part) for part in given.values()):
        return None
    if name in {"bucketize", "isin"} and any(event.value_of(given[key]).rank != 1 for key in ("edges", "values") if key in given):
        return None
    template = found.templates.get(frozenset(given))
    return unsafe(context.replace(call, template, **given)) if template else None


def arguments(call: ast.Call, found: Form, is_function: bool) -> dict[str, ast.expr] | None:
    parts = call.args if is_function else [call.func.value, *call.args]
    if any(isinstance(part, ast.Starred) for part in parts) or len(parts) > len(found.parameters):
        return None
    given = dict(zip(found.parameters, parts))
    for item in call.keywords:
        name = item.arg if item.arg in found.parameters else NAMES.get(item.arg or "", item.arg)
        if name not in found.parameters or name in given:
            return None
        given[name] = item.value
    return given


def rounded(context: Context, call: ast.Call, is_function: bool) -> Fix | None:
    """`torch.round(x, decimals=2)` is scaled, rounded and scaled back."""
    digits = next((constant(item.value) for item in call.keywords if item.arg == "decimals"), None)
    tensor = call.args[0] if is_function and len(call.args) == 1 else call.func.value if not is_function and not call.args else None
    if tensor is None or not isinstance(digits, int) or not 0 < digits < 7:
        return None
    return unsafe(context.replace(call, f"torch.round({{x}} * {10 ** digits}) / {10 ** digits}", x=tensor))
