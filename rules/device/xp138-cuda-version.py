"""Facts about how torch was built: printed, or decided upon."""

import ast

from xlaport.ruleset.api import Context, Danger, Severity, syntax

FACTS = {
    "torch.version.cuda": "the CUDA version torch was built for, set on a TPU machine too: decide what a TPU is to do here",
    "torch._C._cuda_getCompiledVersion": "the CUDA version torch was built for: decide what a TPU is to do here",
    "torch.backends.cuda.is_built": "True with the usual torch wheel, GPU or not: decide what a TPU is to do here",
    "torch.has_cuda": "True with the usual torch wheel, GPU or not: decide what a TPU is to do here",
    "torch.cuda.has_magma": "True with the usual torch wheel, GPU or not: decide what a TPU is to do here",
    "torch.cuda.is_initialized": "always False without a GPU: decide what a TPU is to do here",
    "torch.cuda._is_in_bad_fork": "always False without a GPU: start workers before the device is first used",
}
PRINTERS = {"print", "info", "debug", "warning", "warn", "log", "format", "join", "str", "append", "write", "error"}


def check(context: Context):
    for name, message in FACTS.items():
        for node in context.uses(name):
            if is_printed(node):
                yield context.finding(node, f"`{name}` is printed, as a fact about the build", danger=Danger.NONE, severity=Severity.NOTE, is_idiom=False)
            else:
                yield context.finding(node, message)


def is_printed(node: ast.expr) -> bool:
    """In an f-string, a report's dictionary, or the arguments of something that prints."""
    child = node
    for parent in syntax.ancestors(node):
        if isinstance(parent, (ast.Compare, ast.BoolOp, ast.If)) or isinstance(parent, ast.IfExp) and child is parent.test:
            return False
        if isinstance(parent, (ast.FormattedValue, ast.Dict)):
            return True
        if isinstance(parent, ast.Call) and child is not parent.func:
            name = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
            return name in PRINTERS
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False
