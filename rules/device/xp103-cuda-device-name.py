"""The device's name as a string: defaults, options, tests such as `device.type == "cuda"`."""

import ast
import re

from xlaport.analysis import devices
from xlaport.analysis.values import PLACE, constant, last_name
from xlaport.ruleset.api import Context, Danger, EnsureImport, Kind, syntax

METHODS = frozenset({"to", "half", "float", "double", "contiguous", "numpy", "detach"})
TAKEN_BY_OTHERS = (
    "torch.device", "torch.load", "torch.Generator", "torch.random.fork_rng", "torch.autocast", "torch.amp.",
    "torch.cuda.", "torch_xla.",
)
SPLITTING = frozenset({"split", "rsplit", "partition", "rpartition", "index", "rindex", "find", "rfind"})
MAY_BE_DEVICE = re.compile(r"dev|gpu|cuda|str\(", re.IGNORECASE)
"""What a name says of which one letter is taken: elements of lists are read everywhere."""

AFTER_NAME = {3, 4, 5}
"""Where the number starts: `name[5:]` takes it out of `cuda:1`."""

STRIPPING = frozenset({"strip", "lstrip", "removeprefix"})


def check(context: Context):
    for node in [*devices.cuda_strings(context.module), *composed_names(context)]:
        if not syntax.is_dead(node) and not belongs_elsewhere(context, node) and not is_cut(context, node.parent):
            yield finding_for(context, node)
    if not context.on_device:
        return
    subscripts = (node for node in context.facts.of(ast.Subscript) if may_take_number(context, node))
    for node in [*context.calls_of_method(*SPLITTING, *STRIPPING, "replace"), *subscripts]:
        if is_cut(context, node) and not syntax.is_dead(node):
            yield context.finding(
                node, 'the number is cut out of the device\'s name, and "xla" has none: a process\'s own device is number 0', danger=Danger.LOUD
            )


def may_take_number(context: Context, node: ast.Subscript) -> bool:
    """By its form alone: `x[5:]`, `x[-1]`."""
    if isinstance(node.slice, ast.Slice) and constant(node.slice.lower) in AFTER_NAME or is_length(node.slice):
        return isinstance(node.value, (ast.Name, ast.Attribute, ast.Call))
    if isinstance(node.slice, ast.Slice):
        return isinstance(node.slice.lower, ast.UnaryOp) and MAY_BE_DEVICE.search(context.text(node.value))
    return isinstance(node.slice, (ast.Constant, ast.UnaryOp)) and not isinstance(constant(node.slice), str) and MAY_BE_DEVICE.search(context.text(node.value))


def is_length(window: ast.expr) -> bool:
    """`len("cuda:"):`"""
    return isinstance(window, ast.Slice) and isinstance(window.lower, ast.Call) and last_name(window.lower.func) == "len"


def is_cut(context: Context, node: ast.AST) -> bool:
    """Does an expression take the number out of a device's name? What only takes the part before it goes on as it is."""
    if isinstance(node, ast.Subscript):
        return is_device_text(context, node.value) and not takes_beginning(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    method, texts = node.func.attr, [constant(argument) for argument in node.args]
    if method in STRIPPING or method == "replace" and texts[1:] == [""]:
        return devices.is_cuda_string(node.args[0])
    if method not in SPLITTING or texts[0] != ":" or takes_beginning(node.parent):
        return False
    return is_device_text(context, node.func.value) or Kind.DEVICE in context.values.guess(node.func.value)


def is_device_text(context: Context, node: ast.expr) -> bool:
    """A device's name by evidence, or `str(device)`."""
    if isinstance(node, ast.Call) and context.names.bindings("str", node) == [] and last_name(node.func) == "str" and node.args:
        return bool(context.values.guess(node.args[0]) & PLACE)
    kind = context.values.kind(node)
    return Kind.DEVICE_STRING in kind and not kind & (Kind.CONTAINER | Kind.TENSOR)


def takes_beginning(node: ast.AST) -> bool:
    """`name[0]` or `name[:4]`."""
    if not isinstance(node, ast.Subscript):
        return False
    return node.slice.lower is None if isinstance(node.slice, ast.Slice) else constant(node.slice) == 0


def composed_names(context: Context):
    """`f"cuda:{i}"` and its older spellings."""
    for node in [*context.facts.of(ast.JoinedStr, ast.BinOp), *context.calls_of_method("format")]:
        if devices.composed_index(node, context.module) is not None:
            yield node


def belongs_elsewhere(context: Context, node: ast.expr) -> bool:
    """A device object's rule or a more special one speaks of it."""
    if isinstance(node.parent, ast.Attribute) and node.parent.attr == "format":
        return True
    if devices.is_lightning_accelerator(node, context.module) or devices.names_implementation(node) or is_method_name(node):
        return True
    if isinstance(node.parent, ast.BinOp) and devices.composed_index(node.parent, context.module) is not None:
        return True
    child, parent = node, node.parent
    while isinstance(parent, (ast.IfExp, ast.keyword, ast.Dict)) and not (isinstance(parent, ast.IfExp) and child is parent.test):
        child, parent = parent, parent.parent
    if not isinstance(parent, ast.Call):
        return False
    if any(name.startswith(TAKEN_BY_OTHERS) for name in context.names.qualified(parent.func)):
        return True
    func = parent.func
    if isinstance(child, ast.keyword) and child.arg == "dest" and isinstance(func, ast.Attribute) and func.attr == "add_argument":
        return True  # the name of the option's attribute
    if isinstance(func, ast.Attribute) and func.attr in {"to", "cuda", "to_empty"} and not context.names.qualified(func):
        return child is not func
    if isinstance(child, ast.keyword) and child.arg in {"device", "map_location"}:
        return child.arg == "map_location" or takes_device(context, func)
    return isinstance(func, ast.Name) and func.id in {"getattr", "hasattr", "setattr"}


def is_method_name(node: ast.expr) -> bool:
    """`name in {"cuda", "half", "to"}`: methods of a tensor, not devices."""
    return any(constant(other) in METHODS for other in getattr(node.parent, "elts", ()))


def takes_device(context: Context, func: ast.expr) -> bool:
    names = context.names.qualified(func)
    return any(name.startswith(("torch.", "torchvision.", "transformers.", "timm.")) for name in names) or (
        isinstance(func, ast.Attribute) and func.attr.startswith("new_")
    )


def finding_for(context: Context, node: ast.expr):
    if isinstance(node.parent, ast.Dict) and node in node.parent.keys:
        return context.finding(node, 'a table keyed by the device\'s name: "xla" has no entry', danger=context.rule.danger)
    index = devices.composed_index(node, context.module) or numbered(node)
    if devices.means_other_devices(index, context.module):
        return context.finding(node, "another device than the process's own: on TPU a process drives one device; shard with {sharding}")
    if isinstance(node.parent, ast.Compare) and devices.guards_kernel(node.parent, context.module):
        return context.finding(node, "guards a kernel for CUDA: false on {runtime}, and the other way is taken", danger=Danger.NONE)
    if isinstance(node.parent, ast.Compare):
        ops = [op for op in as_string(context, node) if not isinstance(op, EnsureImport)]  # nothing is put on a device here
        return context.finding(node, "a test on the device's name that is never true on {runtime}", ops)
    target = assigned_device(context, node)
    if target is not None and not devices.must_stay_string(context.module, context.project):
        lazy = devices.runs_before_workers(node, context.module, context.project)
        return context.finding(node, "a CUDA device's name", context.replace(node, "{lazy_device}" if lazy else "{device}"))
    return context.finding(node, "a CUDA device's name", as_string(context, node))


def numbered(node: ast.expr) -> ast.expr | None:
    return node if isinstance(node, ast.Constant) and ":" in node.value else None


def as_string(context: Context, node: ast.expr):
    quote = "'" if context.text(node).lstrip("rbfuRBFU").startswith("'") else '"'
    return [*context.replace(node, quote + context.target.device_type + quote), *context.ensure("torch_xla")]


def assigned_device(context: Context, node: ast.expr) -> ast.Name | None:
    """The name in `device = "cuda"` or `device = "cuda" if ok else "cpu"`, when it is called a device and used as one."""
    child, parent = node, node.parent
    while isinstance(parent, ast.IfExp) and child is not parent.test:
        child, parent = parent, parent.parent
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return None
    target = parent.targets[0]
    uses = [name for name in context.facts.of(ast.Name) if name.id == target.id and isinstance(name.ctx, ast.Load)]
    if not uses or not all(is_device_use(context, use) for use in uses):
        return None
    return target


def is_device_use(context: Context, use: ast.Name) -> bool:
    """Passed as a device, printed, or handed to a parameter: never compared or cut up as a string."""
    parent = use.parent
    if isinstance(parent, ast.keyword):
        return parent.arg in {"device", "map_location"}
    if isinstance(parent, ast.FormattedValue):
        return isinstance(parent.parent.parent, ast.Call) and "print" in ast.unparse(parent.parent.parent.func)
    if not isinstance(parent, ast.Call) or use is parent.func:
        return False
    if context.refers(parent.func, "torch.device"):
        return True
    if isinstance(parent.func, ast.Attribute) and parent.func.attr in {"to", "cuda"}:
        return True
    if isinstance(parent.func, ast.Name) and parent.func.id == "print":
        return True
    return Kind.DEVICE in context.values.guess(use) and not any(
        name.startswith(("torch.autocast", "torch.amp")) for name in context.names.qualified(parent.func)
    )
