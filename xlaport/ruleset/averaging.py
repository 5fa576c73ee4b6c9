"""What has to come before gradients are averaged over replicas that a step may have accumulated."""

from __future__ import annotations

FRESH = (
    'for parameter in (p for group in {optimizer}.param_groups for p in group["params"] if p.grad is not None):\n'
    "    parameter.grad = parameter.grad.clone()  # torch_xla 2.9 loses the average of an accumulated gradient where a view is made of it"
)
"""Measured with two replicas: after two backward passes, or one onto gradients that were set to 0, `xm.reduce_gradients` and then
`clip_grad_norm_`, `detach()` or the first step of SGD with momentum take each replica's own gradients."""


def fresh(optimizer: str) -> str:
    """Statements that give each gradient storage of its own; `optimizer` as the program says it."""
    return FRESH.replace("{optimizer}", optimizer)
