"""`torch.cuda.FloatTensor` and its kin, which are constructors and dtypes at once."""

import ast

from xlaport.ruleset.api import Context, syntax

DTYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64",
    "BoolTensor": "bool", "Tensor": "float32",
}
TYPES = [f"torch.cuda.{name}" for name in DTYPES]


def check(context: Context):
    for node in context.facts.of(ast.Attribute, ast.Name) if context.names_any(*TYPES) else ():
        if isinstance(node.ctx, ast.Load) and names_cuda_type(context, node) and not syntax.is_dead(node):
            yield from uses_of(context, node)
    for node in context.facts.of(ast.Constant):
        if isinstance(node.value, str) and node.value.startswith("torch.cuda.") and node.value.endswith("Tensor"):
            yield from string_form(context, node)


def cuda_type(context: Context, node: ast.expr) -> str | None:
    """`FloatTensor` for `torch.cuda.FloatTensor`."""
    for name in context.names.qualified(node):
        root, _, last = name.rpartition(".")
        if root == "torch.cuda" and last in DTYPES:
            return last
    return None


def names_cuda_type(context: Context, node: ast.expr) -> bool:
    if isinstance(node.parent, ast.Attribute):
        return False
    return cuda_type(context, node) is not None


def is_written_out(context: Context, node: ast.expr) -> bool:
    """`torch.cuda.FloatTensor` itself or its imported name, not a variable that may hold it."""
    if isinstance(node, ast.Attribute):
        return True
    return any(binding.target for binding in context.names.bindings(node))


def uses_of(context: Context, node: ast.expr):
    parent = node.parent
    last = cuda_type(context, node)
    if isinstance(parent, ast.Call) and parent.func is node:
        yield constructed(context, parent, node, last)
    elif is_type_argument(parent, node):
        yield context.finding(parent, f"converts to torch.cuda.{last}", converted(context, parent, last))
    elif isinstance(parent, ast.Call) and ast.unparse(parent.func) == "isinstance":
        template = '({x}.device.type == "{device_type}" and {x}.dtype == torch.%s)' % DTYPES[last]
        yield context.finding(parent, "never true for an XLA tensor", context.replace(parent, template, x=parent.args[0]))
    elif is_written_out(context, node):
        yield definition(context, node, last)


def is_type_argument(parent: ast.AST, node: ast.expr) -> bool:
    return (
        isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "type"
        and len(parent.args) == 1 and parent.args[0] is node
    )


def constructed(context: Context, call: ast.Call, node: ast.expr, last: str):
    """The legacy constructor takes data or sizes; the host constructor of the same name does too."""
    ops = context.wrap(call, "{call}.to({device})")
    if is_written_out(context, node):
        ops += context.replace(node, f"torch.{last}")
    return context.finding(call, f"builds a torch.cuda.{last}", ops)


def converted(context: Context, call: ast.Call, last: str):
    return context.replace(call, "{x}.to({device}, torch.%s)" % DTYPES[last], x=call.func.value)


def definition(context: Context, node: ast.expr, last: str):
    """`Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`: the host type, moved where it is used."""
    choice = node.parent
    if isinstance(choice, ast.IfExp) and node in (choice.body, choice.orelse):
        other = choice.orelse if node is choice.body else choice.body
        if any(name == f"torch.{last}" for name in context.names.qualified(other)):
            return context.finding(node, f"torch.cuda.{last} as a value", context.replace(choice, "{other}", other=other))
    return context.finding(node, f"torch.cuda.{last} as a value", context.replace(node, f"torch.{last}"))


def string_form(context: Context, node: ast.Constant):
    last = node.value.rpartition(".")[2]
    parent = node.parent
    if last not in DTYPES or syntax.is_docstring(node):
        return
    if is_type_argument(parent, node):
        yield context.finding(parent, f"converts to {node.value}", converted(context, parent, last))
    elif not (isinstance(parent, ast.Call) and context.refers(parent.func, "torch.set_default_tensor_type")):
        yield context.finding(node, f"{node.value!r} names no type of XLA: test `x.device.type` and `x.dtype` instead")
