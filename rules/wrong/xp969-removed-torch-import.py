"""Imports of private or ancient parts of torch."""

import ast

from xlaport.ruleset.api import Context, syntax

MOVED = {
    "torch._utils._accumulate": ("itertools", "accumulate"),
    "torch.nn.modules.linear._LinearWithBias": ("torch.nn.modules.linear", "NonDynamicallyQuantizableLinear"),
}
GONE = {
    "torch.utils.ffi": "its extensions are CUDA kernels: look in torchvision.ops, or write it with torch operations",
    "torch.legacy": "rewrite with torch.nn",
    "torch.utils.trainer": "write the loop",
    "torch.utils.serialization.load_lua": "convert the file with an old torch",
}


def check(context: Context):
    for node in context.facts.of(ast.ImportFrom):
        if node.level or syntax.is_dead(node) or any(isinstance(p, ast.Try) and p.handlers for p in syntax.ancestors(node)):
            continue
        names = {alias: f"{node.module}.{alias.name}" for alias in node.names}
        gone = next((GONE[module] for name in names.values() for module in GONE if name == module or name.startswith(module + ".")), "")
        if gone:
            yield context.finding(node, f"{node.module} is gone: {gone}", is_idiom=False)
        elif any(name in MOVED for name in names.values()):
            yield context.finding(node, ops=moved(context, node, names), is_idiom=False)


def moved(context: Context, node: ast.ImportFrom, names: dict[ast.alias, str]):
    kept = ", ".join(ast.unparse(alias) for alias, name in names.items() if name not in MOVED)
    lines = [f"from {node.module} import {kept}"] if kept else []
    for alias, name in names.items():
        if name in MOVED:
            module, new = MOVED[name]
            lines.append(f"from {module} import {new} as {alias.asname or alias.name}")
    return context.replace_statement(node, "\n".join(lines))[:1]
