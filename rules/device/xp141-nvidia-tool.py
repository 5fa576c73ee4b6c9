"""Commands of the NVIDIA driver and toolkit, run from Python."""

import ast
import re

from xlaport.ruleset.api import Context, syntax

TOOL = re.compile(r"^\s*(?:sudo\s+)?(?:\S*/)?(nvidia-smi|nvcc|nsys|gpustat|nvidia-settings)\b")
WATCH = "use {watching}"
INSTEAD = {"nvcc": "build no CUDA sources", "nsys": "profile with xp.start_trace(folder)"}
RUNNERS = ("subprocess.", "os.system", "os.popen", "os.execv", "shutil.which", "distutils.spawn.find_executable", "sh.", "asyncio.create_subprocess")
NAMED = re.compile(r"popen|check_output|check_call|\brun\b|system|shell|which|exec", re.IGNORECASE)


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        tool = TOOL.match(node.value) if isinstance(node.value, str) else None
        if tool and is_command(context, node) and not syntax.is_dead(node):
            yield context.finding(node, f"`{tool[1]}` is not on a TPU machine: {INSTEAD.get(tool[1], WATCH)}")


def is_command(context: Context, node: ast.Constant) -> bool:
    """An argument of a call that runs programs, or the first word of a list or text that such a call may get."""
    for parent in syntax.ancestors(node):
        if isinstance(parent, ast.Call):
            names = context.names.qualified(parent.func)
            if any(name.startswith(RUNNERS) for name in names) or not names and NAMED.search(ast.unparse(parent.func)):
                return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.Assign) and not isinstance(parent.value, ast.Dict)
    return False
