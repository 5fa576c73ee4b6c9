"""What only the wrapper had: `model.module`, `model.no_sync()`, `model.require_backward_grad_sync`."""

import ast
import re

from xlaport.ruleset.api import Context, Kind, Mode, syntax

HOOKS = frozenset({"register_comm_hook", "_register_fused_optim", "_set_static_graph"})
MEMBERS = frozenset({"module", "no_sync", "require_backward_grad_sync"}) | HOOKS
DATA_PARALLEL = re.compile(r"\bDataParallel\(")


def check(context: Context):
    if context.mode not in (Mode.MP, Mode.SPMD):
        return
    for node in context.facts.of(ast.Attribute):
        if node.attr not in MEMBERS or syntax.is_dead(node) or context.names.qualified(node):
            continue
        if node.attr == "module" and isinstance(node.ctx, ast.Load) and is_wrapped(context, node):
            yield from unwrapped(context, node)
        elif node.attr == "no_sync" and isinstance(node.parent, ast.Call) and node.parent.func is node:
            yield context.finding(node.parent, "gradients are reduced at the step only", context.replace(node.parent, "contextlib.nullcontext()"))
        elif node.attr == "no_sync" and isinstance(node.ctx, ast.Load) and is_wrapped(context, node):
            yield context.finding(node, "gradients are reduced at the step only", context.replace(node, "contextlib.nullcontext"))
        elif node.attr in HOOKS and isinstance(node.parent, ast.Call) and isinstance(node.parent.parent, ast.Expr):
            yield context.finding(node.parent, "gradients travel as they are: XLA has no hooks on its reduction", context.remove(node.parent.parent))
        elif node.attr == "require_backward_grad_sync" and isinstance(node.parent, ast.Assign):
            yield context.finding(node, "gradients are reduced at the step only", context.remove(node.parent))


def is_wrapped(context: Context, node: ast.Attribute) -> bool:
    if isinstance(node.value, ast.Name) and node.value.id == "self" or is_guarded(node):
        return False
    constructors = context.values.constructors(node.value)
    if any(name.endswith(".DistributedDataParallel") for name in constructors):
        return True
    return Kind.MODULE in context.values.guess(node.value) and not has_own_module(context, node.value)


def has_own_module(context: Context, receiver: ast.expr) -> bool:
    """A class of the project with an attribute `module` of its own."""
    found = context.values.class_of_instance(receiver)
    return found is not None and "module" in found[1].assigned_attributes(found[0])


def is_guarded(node: ast.Attribute) -> bool:
    """`m.module if hasattr(m, "module") else m`, `if isinstance(m, DDP): m = m.module`: right without the wrapper too."""
    for parent in syntax.ancestors(node):
        if isinstance(parent, (ast.IfExp, ast.If)) and re.search(r"hasattr\(|isinstance\(|has_attr", ast.unparse(parent.test)):
            return True
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
    return False


def unwrapped(context: Context, node: ast.Attribute):
    choice = node.parent
    if isinstance(choice, ast.IfExp) and node in (choice.body, choice.orelse):
        other = choice.orelse if node is choice.body else choice.body
        if ast.unparse(other) == ast.unparse(node.value):
            yield context.finding(node, "there is no wrapper to look into", context.replace(choice, "{model}", model=other))
            return
    if context.project.program_mentions(context.module.source.path, DATA_PARALLEL):
        ops = context.replace(node, 'getattr({model}, "module", {model})', model=node.value)
        yield context.finding(node, "there may be no wrapper to look into", ops)
        return
    yield context.finding(node, "there is no wrapper to look into", context.replace(node, "{model}", model=node.value))
