"""`--cuda` / `--accel` flags that are off unless given: the port would train on the host."""

import ast
import re

from xlaport.analysis.values import constant, destination_of
from xlaport.ruleset.api import Context, syntax

OPT_IN = re.compile(r"^(use_?|with_?|enable_?)?(cuda|accel|accelerator|gpu)$", re.IGNORECASE)
DEVICE = re.compile(r"cuda|accelerator|xla|device")


def check(context: Context):
    for call in context.facts.of(ast.Call):
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and call.args):
            continue
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        name = destination_of(call)
        if constant(keywords.get("action")) != "store_true" or constant(keywords.get("default")) is True or syntax.is_dead(call):
            continue
        if OPT_IN.match(name) and selects_device(context, name):
            yield context.finding(call, ops=switched_on(context, call))


def selects_device(context: Context, name: str) -> bool:
    """Is the option tested where a device is chosen or something is moved to one?"""
    for node in context.facts.of(ast.Attribute):
        if node.attr != name or not isinstance(node.ctx, ast.Load):
            continue
        branch = next((parent for parent in syntax.ancestors(node) if isinstance(parent, (ast.If, ast.IfExp, ast.Assign, ast.stmt))), None)
        if branch is not None and DEVICE.search(ast.unparse(branch)):
            return True
    return False


def switched_on(context: Context, call: ast.Call):
    if any(binding.target == "argparse" for binding in context.names.bindings("argparse", call)):
        return context.edit_call(call, action="argparse.BooleanOptionalAction", default="True")
    return context.edit_call(call, default="True")
