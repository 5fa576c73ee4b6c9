"""`torch.random.fork_rng`: keeps the CPU's and CUDA's random state, not XLA's."""

import ast

from xlaport.ruleset.api import Context, Danger, syntax

FORKS = ("torch.random.fork_rng", "torch.fork_rng")


def check(context: Context):
    if not context.project.on_device(context.module.source.path):
        return
    for node in context.uses(*FORKS):
        item = node.parent
        if not isinstance(node, ast.Call) or not isinstance(item, ast.withitem):
            yield context.finding(node, "does not keep the XLA generator's state: enter xm.fork_rng() as well, and name no device", danger=danger(node))
        elif not forks_xla(context, item.parent):
            yield context.finding(node, "does not keep the XLA generator's state", both(context, node, item.parent), danger=danger(node))


def both(context: Context, call: ast.Call, statement: ast.With):
    enabled = syntax.argument(call, "enabled")
    arguments = f"enabled={context.text(enabled)}" if enabled is not None else ""
    ops = context.add_with_item(statement, f"xm.fork_rng({arguments})")
    if names_device(call):
        ops += context.edit_call(call, remove=("device_type",), positions=(0,), devices="[]")
    return ops


def danger(node: ast.expr) -> Danger:
    return Danger.LOUD if isinstance(node, ast.Call) and names_device(node) else Danger.SILENT


def names_device(call: ast.Call) -> bool:
    devices = call.args[:1] + [keyword.value for keyword in call.keywords if keyword.arg in {"devices", "device_type"}]
    return any(not (isinstance(node, (ast.List, ast.Tuple)) and not node.elts) for node in devices)


def forks_xla(context: Context, statement: ast.With) -> bool:
    return any(
        isinstance(item.context_expr, ast.Call) and context.refers(item.context_expr.func, "torch_xla.core.xla_model.fork_rng")
        for item in statement.items
    )


def check_torchtpu(context: Context):
    """Not `device_type="tpu"`: it reads the generator's state, which raises on torch 2.13."""
    if not context.on_device:
        return
    for node in context.uses(*FORKS):
        yield context.finding(node, "keeps the state of the host and of CUDA: the TPU's generator has no public state to keep, seed it again behind the block", danger=danger(node))
