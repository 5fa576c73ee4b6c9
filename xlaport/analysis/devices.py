"""Expressions that name a CUDA device, and where they stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xlaport.analysis.facts import FUNCTIONS, ancestors, argument, enclosing_function, following, is_docstring, own_nodes
from xlaport.analysis.folding import fold, only_looks, outermost_condition
from xlaport.analysis.names import Names
from xlaport.analysis.project import Module, Project
from xlaport.analysis.values import NUMBER, PLACE, Kind, constant, default_of, last_name

CUDA_STRING = re.compile(r"cuda(:\d*)?")
PERCENT = re.compile(r"cuda:%[dsi]")
FORMAT = re.compile(r"cuda:\{\w*(![rs])?(:\w*)?\}")
ALWAYS_TRUE = frozenset({"torch.cuda.is_available", "torch.accelerator.is_available", "torch.cuda.is_bf16_supported"})
COUNTS = frozenset({"torch.cuda.device_count", "torch.accelerator.device_count"})
SET_DEVICE = "torch.cuda.set_device"
DATA_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel")
ACCELERATOR = "torch.accelerator.current_accelerator"
KERNEL = re.compile(r"_cuda(_|$)|^cuda_(?!is_)|triton|cupy", re.IGNORECASE)
STARTERS = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "torch_xla.launch"})
LIGHTNING = ("lightning", "pytorch_lightning")
SPAWNERS = re.compile(r"\bspawn\(|\blaunch\(")
STRING_TEST = re.compile(
    r"""["']\w+:?["']\s+(?:not\s+)?in\s+(?:\w+\.)*\w*device|device\s*[!=]=\s*["']|["']\s*[!=]=\s*(?:\w+\.)*device\b"""
    r"""|device\.(?:startswith|split|find|replace|lower|strip|index)\(|device\s*\+\s*["']|device_type\s*=\s*\w*device\b"""
    r"""|autocast\(\s*(?:\w+\.)*device\b|len\(device\)|device\[|exec\(open|json\.dump|yaml\.|OmegaConf"""
)
"""Uses for which a device variable must stay a string."""


@dataclass(frozen=True)
class Spelled:
    """The XLA form of a device expression: a template over parts that stay. `index` is the device number, if any."""

    template: str
    parts: tuple[ast.expr, ...] = ()
    index: ast.expr | None = None

    @property
    def holes(self) -> dict[str, ast.expr]:
        return {f"p{number}": part for number, part in enumerate(self.parts)}


def is_cuda_string(node: ast.AST | None) -> bool:
    value = constant(node)
    return isinstance(value, str) and value.startswith("cuda") and CUDA_STRING.fullmatch(value) is not None


def spelled(node: ast.expr, module: Module, device: str) -> Spelled | None:
    """The XLA form of an expression that names a CUDA device; None when it does not, or not surely.

    `device` is the template of the device itself.
    """
    if is_cuda_string(node):
        return Spelled(device, index=node if ":" in node.value else None)
    composed = composed_index(node, module)
    if composed is not None:
        return Spelled(device, index=composed)
    if isinstance(node, ast.IfExp):
        return spelled_choice(node, module, device)
    if isinstance(node, ast.Call) and ACCELERATOR in module.names.qualified(node.func):
        return Spelled(device)
    return None


def composed_index(node: ast.expr, module: Module) -> ast.expr | None:
    """The number in `f"cuda:{i}"`, `"cuda:%d" % i`, `"cuda:{}".format(i)`, `"cuda:" + str(i)`."""
    if isinstance(node, ast.JoinedStr) and node.values:
        first, *rest = node.values
        if isinstance(first, ast.Constant):
            if not rest:
                return node if is_cuda_string(first) else None
            return rest[0].value if first.value == "cuda:" and len(rest) == 1 and isinstance(rest[0], ast.FormattedValue) else None
        if isinstance(first, ast.FormattedValue) and len(rest) == 2 and constant(rest[0]) == ":":
            if module.values.kind(first.value) & PLACE and isinstance(rest[1], ast.FormattedValue):
                return rest[1].value
        return None
    if isinstance(node, ast.BinOp) and is_beginning(node):
        right = node.right
        return right.args[0] if isinstance(right, ast.Call) and last_name(right.func) == "str" and right.args else right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format" and node.args:
        if FORMAT.fullmatch(str(constant(node.func.value))):
            return node.args[0]
    return None


def is_beginning(node: ast.BinOp) -> bool:
    """The left of `"cuda:" + x` or `"cuda:%d" % x`: a text that goes on (`"cuda_" + x`) names no device."""
    value = constant(node.left)
    if not isinstance(value, str):
        return False
    if isinstance(node.op, ast.Add):
        return value in {"cuda", "cuda:"}
    return isinstance(node.op, ast.Mod) and PERCENT.fullmatch(value) is not None


def spelled_choice(node: ast.IfExp, module: Module, device: str) -> Spelled | None:
    """`"cuda" if use_cuda else "cpu"`, folded where the condition is only about availability."""
    test = fold(node.test, lambda part: truth(part, module))
    if test.constant is not None:
        chosen = node.body if test.constant else node.orelse
        return spelled(chosen, module, device)
    sides = [spelled(node.body, module, device), spelled(node.orelse, module, device)]
    if all(side is None for side in sides):
        return None
    if None not in sides and sides[0].template == sides[1].template and not sides[0].parts and only_looks(node.test):
        return Spelled(sides[0].template, index=sides[0].index or sides[1].index)
    texts, parts, index = [], list(test.parts), None
    for side, branch in zip(sides, (node.body, node.orelse)):
        if side is None:
            texts.append("{p%d}" % len(parts))
            parts.append(branch)
            continue
        piece = side.template
        for number in reversed(range(len(side.parts))):
            piece = piece.replace("{p%d}" % number, "{p%d}" % (number + len(parts)))
        parts.extend(side.parts)
        texts.append(piece)
        index = index or side.index
    return Spelled(f"{texts[0]} if {test.template} else {texts[1]}", tuple(parts), index)


def truth(node: ast.expr, module: Module) -> bool | None:
    """What a test on the presence of a CUDA device becomes on XLA: True; None for any other test."""
    if isinstance(node, ast.Call) and ALWAYS_TRUE.intersection(module.names.qualified(node.func)):
        return True
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and is_count(node.left, module):
        number, op = constant(node.comparators[0]), node.ops[0]
        if isinstance(op, (ast.Gt, ast.NotEq)) and number == 0 or isinstance(op, ast.GtE) and number == 1:
            return True
        if isinstance(op, ast.Eq) and number == 0 or isinstance(op, ast.Lt) and number == 1:
            return False
    if is_count(node, module) and is_condition(node):
        return True
    return None


def is_count(node: ast.expr, module: Module) -> bool:
    return isinstance(node, ast.Call) and bool(COUNTS.intersection(module.names.qualified(node.func)))


def is_condition(node: ast.expr) -> bool:
    """Only asked for its truth: `n = device_count() or 1` takes the number."""
    while isinstance(node.parent, ast.BoolOp):
        node = node.parent
    parent = node.parent
    if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return parent.test is node
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


def means_other_devices(index: ast.expr | None, module: Module) -> bool:
    """Does a device number count through several devices of one process (model parallelism by hand)?

    Number 0 is then one of them: were it changed alone, the next pass would find one number less, and change that.
    """
    if index is None:
        return False
    if isinstance(index, ast.Constant):
        return len(constant_indexes(module)) > 1
    if isinstance(index, ast.Name):
        return any(binding.how == "loop" for binding in module.names.bindings(index))
    return False


def constant_indexes(module: Module) -> set[str]:
    """Device numbers written out in the file: `{"0", "1"}`."""
    return {
        node.value.partition(":")[2] or "0"
        for node in module.facts.of(ast.Constant)
        if is_cuda_string(node) and not is_docstring(node) and ":" in node.value
    }


def is_integer_device(node: ast.expr | None, module: Module) -> bool:
    """A bare number used as a device: `.to(0)`, `.to(rank)`, `device=local_rank`."""
    if node is None:
        return False
    if isinstance(node, ast.Subscript) and is_of_device_list(node, module):
        return True
    kind = module.values.kind(node)
    if kind & NUMBER and not kind & (Kind.DTYPE | PLACE | Kind.TENSOR):
        return True
    return not kind and Kind.RANK in module.values.guess(node)


def is_of_device_list(node: ast.Subscript, module: Module) -> bool:
    """`gpu_ids[0]` of numbers that the file gives to DataParallel, or whose first it sets."""
    if not isinstance(constant(node.slice), int):
        return False
    given = [(call, "device_ids", 2 if last_name(call.func) == "data_parallel" else 1) for call in module.names.calls(*DATA_PARALLEL)]
    lists = [argument(call, name, position) for call, name, position in given]
    lists += [first.value for call in module.names.calls(SET_DEVICE) for first in call.args[:1] if isinstance(first, ast.Subscript)]
    return any(found is not None and last_name(found) == last_name(node.value) for found in lists)


def starts_processes(module: Module, project: Project) -> bool:
    """Does the program start worker processes itself? Then the device may not be touched before it does."""
    return project.program_mentions(module.source.path, SPAWNERS)


def runs_before_workers(node: ast.AST, module: Module, project: Project) -> bool:
    """Module-level code of a program that starts workers, or a function that starts them, itself or by a helper."""
    if not starts_processes(module, project):
        return False
    function = enclosing_function(node)
    return function is None or function in starting_functions(module)


def starting_functions(module: Module) -> set[ast.AST]:
    """Functions of the file that start workers, and those that call one that does; found once for all who ask."""
    memo = module.values.memo
    if starting_functions not in memo:
        memo[starting_functions] = find_starting_functions(module)
    return memo[starting_functions]


def find_starting_functions(module: Module) -> set[ast.AST]:
    called = module.values.calls_by_last_name
    found: set[ast.AST] = set()
    waiting = [call for name in ("spawn", "launch") for call in called.get(name, ())]
    waiting += calls_of_starters(module)
    while waiting:
        around = [parent for parent in ancestors(waiting.pop()) if isinstance(parent, FUNCTIONS) and parent not in found]
        found.update(around)
        waiting += [call for function in around for call in called.get(function.name, ()) if isinstance(call.func, ast.Name)]
    return found


def calls_of_starters(module: Module) -> list[ast.Call]:
    """Calls of functions that start workers in another file of the project."""
    called = module.values.calls_by_last_name
    return [
        call for name in module.values.project.functions_with(SPAWNERS) & called.keys() for call in called[name]
        if any(
            values is not module.values and any(isinstance(node, ast.Call) and is_starter(node, values.names) for node in own_nodes(function))
            for function, values in module.values.functions_called(call)
        )
    ]


def is_starter(call: ast.Call, names: Names) -> bool:
    return bool(STARTERS.intersection(names.qualified(call.func)))


def must_stay_string(module: Module, project: Project) -> bool:
    """Some file of the program tests or cuts up a device variable as a string."""
    return project.program_mentions(module.source.path, STRING_TEST)


def guarded_by(top: ast.expr, truth: Callable[[ast.expr], bool | None]) -> list[ast.AST]:
    """What runs only where `truth` holds: other parts of the condition, a branch, or what follows an early return."""
    parent = top.parent
    if not isinstance(parent, (ast.If, ast.IfExp)) or parent.test is not top:
        return [top]
    otherwise = fold(top, lambda part: None if truth(part) is None else not truth(part)).constant
    if otherwise is None:
        return [top]
    if isinstance(parent, ast.IfExp):
        return [top, parent.orelse if otherwise else parent.body]
    if not otherwise:
        return [top, *parent.body]
    if not isinstance(parent.body[-1], (ast.Return, ast.Raise, ast.Continue)):
        return [top, *parent.orelse]
    return [top, *following(parent)]


def guards_kernel(test: ast.expr, module: Module) -> bool:
    """`if x.is_cuda: return filter_cuda(x)`: is the test what keeps a kernel for CUDA from a tensor on another device?"""
    guarded = guarded_by(outermost_condition(test), lambda part: True if part is test else None)
    return any(is_kernel(node, module) for part in guarded for node in ast.walk(part))


def is_kernel(node: ast.AST, module: Module) -> bool:
    """A function called or imported whose name says that it is for CUDA; not torch's own."""
    if isinstance(node, ast.ImportFrom):
        return any(map(KERNEL.search, (node.module or "", *(alias.name for alias in node.names))))
    if not isinstance(node, ast.Call):
        return False
    return KERNEL.search(last_name(node.func)) is not None and not any(name.startswith("torch.") for name in module.names.qualified(node.func))


def imports_lightning(module: Module) -> bool:
    names = [alias.name for node in module.facts.of(ast.Import) for alias in node.names]
    names += [node.module or "" for node in module.facts.of(ast.ImportFrom)]
    find, path = module.values.project.find, module.source.path
    return any(name.startswith(LIGHTNING) and find(name, path) is None for name in names)


def is_lightning_accelerator(node: ast.expr, module: Module) -> bool:
    """`accelerator = "cuda"`, `accelerator in ("cuda", "gpu")` in a file that imports Lightning, whose name of a TPU is "tpu"."""
    return imports_lightning(module) and any("accelerator" in name for name in names_around(node))


def names_implementation(node: ast.expr) -> bool:
    """`impl="cuda"`, `impl in ("ref", "cuda")`: a choice between ways to compute, not a device."""
    return any(name.endswith(("impl", "implementation")) for name in names_around(node))


def names_around(node: ast.expr) -> Iterator[str]:
    """What a value is assigned to, compared with, or the default or annotation of."""
    child, parent = node, node.parent
    while isinstance(parent, (ast.Tuple, ast.List, ast.Set, ast.IfExp, ast.Subscript)):
        child, parent = parent, parent.parent
    if isinstance(parent, ast.Compare):
        yield from map(last_name, (parent.left, *parent.comparators))
    elif isinstance(parent, ast.Assign):
        yield from map(ast.unparse, parent.targets)
    elif isinstance(parent, ast.AnnAssign):
        yield ast.unparse(parent.target)
    elif isinstance(parent, ast.arg):
        yield parent.arg
    elif isinstance(parent, ast.arguments):
        parameters = (*parent.posonlyargs, *parent.args, *parent.kwonlyargs)
        yield from (item.arg for item in parameters if default_of(parent.parent, item) is child)
    elif isinstance(parent, ast.keyword):
        yield parent.arg or ""
        if parent.arg in {"default", "choices"}:
            yield from (str(constant(argument)) for argument in parent.parent.args)
    elif isinstance(parent, ast.Dict) and child in parent.values:
        yield str(constant(parent.keys[parent.values.index(child)]))


def cuda_strings(module: Module) -> Iterator[ast.Constant]:
    """Constants that are a CUDA device name, docstrings and f-string pieces left out."""
    for node in module.facts.of(ast.Constant):
        if is_cuda_string(node) and not is_docstring(node) and not isinstance(node.parent, ast.JoinedStr):
            yield node
