"""The forms XP520 names in the place of functions without a kernel give the same numbers."""

from __future__ import annotations

import pytest

from xlaport.ruleset.load import functions_of, rules_folder

RULE = rules_folder() / "syncs" / "xp520-op-without-kernel.py"
FORMS = functions_of(RULE, {})["check"].__globals__["FORMS"]
CALLS = {
    "huber_loss": "F.huber_loss(x, y, delta=delta)", "smooth_l1_loss": "F.smooth_l1_loss(x, y, beta=beta)", "nansum": "torch.nansum(x)",
    "trace": "torch.trace(x)", "mish": "F.mish(x)", "hardshrink": "F.hardshrink(x)", "softshrink": "F.softshrink(x)", "erfc": "torch.erfc(x)",
    "hypot": "torch.hypot(x, y)", "logaddexp": "torch.logaddexp(x, y)", "copysign": "torch.copysign(x, y)", "std_mean": "torch.std_mean(x)",
    "var_mean": "torch.var_mean(x)", "median": "torch.median(x)", "kthvalue": "torch.kthvalue(x, k, dim).values",
}
"""The function each form takes the place of, with the words of the form."""


@pytest.mark.parametrize("name", FORMS)
def test_same_numbers(name):
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    words = {"torch": torch, "F": F, "x": x, "y": y, "d": x - y, "delta": 0.7, "beta": 0.6, "dim": 1, "k": 2}
    form = eval(FORMS[name].partition(" of the difference")[0], words)
    wanted = eval(CALLS[name], words)
    for got, right in zip(*((value if isinstance(value, tuple) else (value,)) for value in (form, wanted)), strict=True):
        assert torch.allclose(got, right, rtol=1e-5, atol=1e-6)
