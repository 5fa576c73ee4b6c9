"""Names numpy has removed: since 1.24, and in 2.0."""

import ast

from xlaport.ruleset.api import Context, syntax

BUILTINS = {
    "float": "float", "int": "int", "bool": "bool", "object": "object", "str": "str", "complex": "complex", "long": "int",
    "unicode": "str",
}
RENAMED = {
    "Inf": "inf", "Infinity": "inf", "infty": "inf", "PINF": "inf", "NaN": "nan", "float_": "float64", "complex_": "complex128",
    "cfloat": "complex128", "singlecomplex": "complex64", "longfloat": "longdouble", "clongfloat": "clongdouble",
    "longcomplex": "clongdouble", "string_": "bytes_", "unicode_": "str_", "bool8": "bool_", "int0": "intp", "uint0": "uintp",
    "object0": "object_", "product": "prod", "cumproduct": "cumprod", "alltrue": "all", "sometrue": "any", "round_": "round",
    "mat": "asmatrix",
}
"""Each was a second name of the one given."""

BY_HAND = {
    "NINF": "-np.inf", "asscalar": "x.item()", "asfarray": "np.asarray(x, dtype=float)", "msort": "np.sort(x, axis=0)",
    "find_common_type": "np.result_type", "cast": "np.asarray(x, dtype=...)",
}


def check(context: Context):
    for node in context.facts.of(ast.Attribute):
        if node.attr not in BUILTINS and node.attr not in RENAMED and node.attr not in BY_HAND:
            continue
        if context.refers(node.value, "numpy") and isinstance(node.ctx, ast.Load) and not syntax.is_dead(node):
            yield finding_for(context, node)


def finding_for(context: Context, node: ast.Attribute):
    message = f"np.{node.attr} was removed from numpy"
    if node.attr in BY_HAND:
        return context.finding(node, f"{message}: use {BY_HAND[node.attr]}", is_idiom=False)
    if node.attr in BUILTINS:
        return context.finding(node, message, context.replace(node, BUILTINS[node.attr]), is_idiom=False)
    ops = context.replace(node, "{module}." + RENAMED[node.attr], module=node.value)
    return context.finding(node, message, ops, is_idiom=False)
