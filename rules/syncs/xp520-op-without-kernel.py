"""Functions of torch whose operator has no kernel on the target, where nothing falls back to the host."""

import ast

from xlaport import opstatus
from xlaport.ruleset.api import Context, syntax

PLACES = ("torch.nn.functional.", "torch.linalg.", "torch.Tensor.", "torch.special.", "torch.")
LOSSES = {"HuberLoss": "huber_loss", "SmoothL1Loss": "smooth_l1_loss", "MultiMarginLoss": "multi_margin_loss", "Softshrink": "softshrink", "Hardshrink": "hardshrink", "Mish": "mish"}
"""Modules that are one operator."""

SPELLED = {"linalg.cross": "linalg_cross", "linalg.eig": "linalg_eig", "linalg.eigvals": "linalg_eigvals", "linalg.cholesky": "linalg_cholesky_ex", "linalg.lstsq": "linalg_lstsq"}
FORMS = {
    "huber_loss": "torch.where(d.abs() < delta, d * d / 2, delta * (d.abs() - delta / 2)) of the difference d",
    "smooth_l1_loss": "torch.where(d.abs() < beta, d * d / (2 * beta), d.abs() - beta / 2) of the difference d",
    "nansum": "torch.nan_to_num and torch.sum",
    "trace": "torch.diagonal(x).sum()",
    "mish": "x * torch.tanh(F.softplus(x))",
}


def check(context: Context):
    if not context.on_device:
        return
    kinds = opstatus.kernels(context.target.name, context.target.versions)
    for call in context.facts.of(ast.Call):
        operator = operator_of(context, call)
        if operator and kinds.get(operator) == "none" and not syntax.is_dead(call):
            instead = f": use {FORMS[operator]}" if operator in FORMS else ", compute it on the host, .cpu() and back"
            yield context.finding(call, f"`aten::{operator}` has no kernel for a TPU and raises{instead}", is_idiom=False)


def operator_of(context: Context, call: ast.Call) -> str:
    for name in context.names.qualified(call.func):
        if name.startswith("torch.nn.") and (module := LOSSES.get(name.rpartition(".")[2])):
            return module
        place = next((place for place in PLACES if name.startswith(place)), "")
        tail = name.removeprefix(place)
        if place == "torch.linalg.":
            return SPELLED.get("linalg." + tail, "linalg_" + tail)
        if place and "." not in tail:
            return tail
    return ""
