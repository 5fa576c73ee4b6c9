"""Folds tests for a CUDA device: on XLA there always is one."""

import ast
import re

from xlaport.analysis import devices
from xlaport.analysis.folding import Residue, fold, outermost_condition
from xlaport.analysis.values import last_name
from xlaport.ruleset.api import Context, Danger, Severity, syntax

SMALL = 6
"""Statements a branch may hold that is taken out because it can never run."""

TELLERS = frozenset({"print", "str", "repr", "format", "debug", "info", "warning"})
BUILDERS = ("torch.utils.cpp_extension.CUDAExtension", "torch.utils.cpp_extension.BuildExtension", "torch.utils.ffi.create_extension")
CAPABILITY = ("torch.cuda.get_device_capability", "torch.cuda.can_device_access_peer")
CUDA_SOURCE = re.compile(r"\.cuh?$|_cuda\.(c|cc|cpp|h)$|^WITH_CUDA$")


def check(context: Context):
    seen = set()
    for node in context.facts.of(ast.Call, ast.Compare):
        if devices.truth(node, context.module) is None or syntax.is_dead(node):
            continue
        top = outermost_condition(node)
        if top in seen:
            continue
        seen.add(top)
        if is_told(node):
            yield context.finding(node, "told to people only: it says False on a TPU machine", danger=Danger.NONE, severity=Severity.NOTE)
        elif builds_cuda(context, top):
            yield context.finding(node, "CUDA sources are built where a GPU is: on a TPU machine the test is False, and stays")
        elif asks_gpu(context, top):
            yield context.finding(node, "guards what only an NVIDIA device answers: on a TPU machine the test is False, and stays")
        else:
            yield folded(context, node, top)


def is_told(node: ast.expr) -> bool:
    """Written into a text or printed as it is."""
    parent = node.parent
    if isinstance(parent, ast.IfExp) and parent.test is node and isinstance(parent.body, ast.Constant):
        parent = parent.parent
    if isinstance(parent, ast.FormattedValue):
        return True
    return isinstance(parent, ast.Call) and node in parent.args and last_name(parent.func) in TELLERS


def builds_cuda(context: Context, top: ast.expr) -> bool:
    """Does the test decide whether CUDA sources are compiled: in a build script, or in what it guards?"""
    if any(context.calls(*BUILDERS)):
        return True
    body = top.parent.body if isinstance(top.parent, ast.If) and top.parent.test is top else []
    texts = (node.value for statement in body for node in ast.walk(statement) if isinstance(node, ast.Constant))
    return any(isinstance(text, str) and CUDA_SOURCE.search(text) for text in texts)


def asks_gpu(context: Context, top: ast.expr) -> bool:
    """Does the test keep a call from raising that asks for an NVIDIA device's capability, and choose no device by the way?"""
    nodes = [node for guarded in devices.guarded_by(top, lambda part: devices.truth(part, context.module)) for node in ast.walk(guarded)]
    questions = [node for node in nodes if needs_gpu(context, node)]
    asked = {id(part) for question in questions for part in ast.walk(question)}
    return bool(questions) and not any(chooses_device(context, node) for node in nodes if id(node) not in asked)


def needs_gpu(context: Context, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    is_read = isinstance(node.parent, ast.Attribute) and node.parent.attr in {"name", "total_memory"}  # XP136 has an answer
    return context.refers(node.func, *CAPABILITY) or context.refers(node.func, "torch.cuda.get_device_properties") and not is_read


def chooses_device(context: Context, node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return devices.is_cuda_string(node)
    return isinstance(node, ast.Call) and (
        isinstance(node.func, ast.Attribute) and node.func.attr in {"cuda", "to"} or context.refers(node.func, "torch.device", "torch.cuda.set_device")
    )


def folded(context: Context, node: ast.expr, top: ast.expr):
    residue = fold(top, lambda part: devices.truth(part, context.module))
    if residue.constant is None:
        return context.finding(node, "a TPU is always there: the test is dropped from the condition", context.replace(top, residue.template, **residue.holes))
    return context.finding(node, "a TPU is always there: the test is always true", constant_ops(context, top, residue))


def constant_ops(context: Context, top: ast.expr, residue: Residue):
    parent, value = top.parent, residue.constant
    if isinstance(parent, ast.IfExp) and parent.test is top:
        return context.replace(parent, "{chosen}", chosen=parent.body if value else parent.orelse)
    if isinstance(parent, ast.Assert) and parent.test is top and value:
        return context.remove(parent)
    if isinstance(parent, ast.If) and parent.test is top:
        lost = parent.orelse if value else parent.body
        if is_small(lost):
            return taken_branch(context, parent, value)
    return context.replace(top, str(value))


def is_small(block: list[ast.stmt]) -> bool:
    nodes = [node for statement in block for node in ast.walk(statement)]
    holds_definition = any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for node in nodes)
    return not holds_definition and sum(isinstance(node, ast.stmt) for node in nodes) <= SMALL


def taken_branch(context: Context, statement: ast.If, value: bool):
    is_elif = isinstance(statement.parent, ast.If) and statement in statement.parent.orelse and starts_with_elif(context, statement)
    if value or statement.orelse or is_elif:
        return context.unwrap(statement, "body" if value else "orelse")
    return context.remove(statement)


def starts_with_elif(context: Context, statement: ast.If) -> bool:
    return context.text(statement).startswith("elif")


def check_torchtpu(context: Context):
    """The test stays a test: `torch.accelerator` answers it on a TPU, on a GPU and on the host."""
    for node in context.uses("torch.cuda.is_available"):
        template = "torch.accelerator.is_available" + ("()" if isinstance(node, ast.Call) else "")
        if isinstance(node, ast.Call) and context.is_second_name(node.func):
            continue  # the place that gave the name is edited
        if isinstance(node, ast.Call) and (builds_cuda(context, outermost_condition(node)) or asks_gpu(context, outermost_condition(node))):
            yield context.finding(node, "guards what only an NVIDIA device answers: on a TPU machine the test is False, and stays")
        else:
            yield context.finding(node, ops=context.replace(node, template))
    for call in context.calls("torch.cuda.is_bf16_supported"):
        if not syntax.is_dead(call):
            yield context.finding(call, "a TPU has bfloat16", context.replace(call, "True"))
