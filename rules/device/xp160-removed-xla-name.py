"""Names that older releases of torch_xla had."""

import ast

from xlaport.ruleset.api import Context, EnsureImport, syntax

FUNCTIONS = {
    "torch_xla.core.xla_model.xrt_world_size": "xr.world_size()",
    "torch_xla.core.xla_model.get_ordinal": "xr.global_ordinal()",
    "torch_xla.runtime.using_pjrt": "True",
    "torch_xla.experimental.pjrt.using_pjrt": "True",
}
MODULES = {
    "torch_xla.experimental.pjrt": "torch_xla.runtime",
    "torch_xla.experimental.xla_sharding": "torch_xla.distributed.spmd",
    "torch_xla.experimental.xla_sharded_tensor": "torch_xla.distributed.spmd",
}
ELSEWHERE = {"torch_xla.experimental.pjrt.broadcast_master_param": "torch_xla.core.xla_model"}
"""Functions of a removed module that did not go where the others went."""

GONE = {
    "torch_xla.core.xla_model.parse_xla_device": "removed in 2.7 without a public form: xr.local_ordinal() and xr.device_type() say what it was for",
    "torch_xla.distributed.xla_dist": "the XRT launcher is gone: start the script on every host with PJRT_DEVICE=TPU",
    "torch_xla.distributed.cluster": "the XRT launcher is gone: start the script on every host with PJRT_DEVICE=TPU",
}
REPLACED_ELSEWHERE = ("torch_xla.amp.GradScaler",)
"""Names another rule replaces: the import goes once they are unused."""


def check(context: Context):
    for name, template in FUNCTIONS.items():
        for node in context.uses(name):
            target = node if isinstance(node, ast.Call) else None
            ops = context.replace(node, template if target else template.removesuffix("()"))
            yield context.finding(node, f"`{name.rpartition('.')[2]}` was removed", ops)
    for name, message in GONE.items():
        for node in context.uses(name):
            yield context.finding(node, message)
    for node in context.facts.of(ast.Import, ast.ImportFrom):
        yield from import_findings(context, node)


def import_findings(context: Context, node: ast.Import | ast.ImportFrom):
    for alias in node.names:
        name = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        if name in MODULES:
            yield context.finding(node, f"`{name}` was removed", moved(context, node, alias, MODULES[name]))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module in MODULES:
            yield context.finding(node, f"`{node.module}` was removed", from_moved(context, node))
            return
        elif name in FUNCTIONS or name in REPLACED_ELSEWHERE and not is_used(context, alias.asname or alias.name):
            yield context.finding(node, f"`{alias.name}` was removed", context.drop_imported(node, alias.asname or alias.name))
        elif name in GONE:
            yield context.finding(node, GONE[name])


def moved(context: Context, node: ast.stmt, alias: ast.alias, module: str):
    """`import old as x` and `from parent import old` name the new module."""
    if len(node.names) > 1 or isinstance(node, ast.Import) and alias.asname is None:
        return None
    return without_imports(context.replace_statement(node, f"import {module} as {alias.asname or alias.name}"))


def from_moved(context: Context, node: ast.ImportFrom):
    names: dict[str, list[str]] = {}
    for alias in node.names:
        home = ELSEWHERE.get(f"{node.module}.{alias.name}", MODULES[node.module])
        names.setdefault(home, []).append(ast.unparse(alias))
    imports = "\n".join(f"from {home} import {', '.join(listed)}" for home, listed in names.items())
    return without_imports(context.replace_statement(node, imports))


def without_imports(ops):
    return [op for op in ops if not isinstance(op, EnsureImport)]


def is_used(context: Context, bound: str) -> bool:
    return any(node.id == bound for node in context.facts.of(ast.Name) if not syntax.is_dead(node))
