"""Arguments of a call: taken out and put in, laid out and commented as the call is."""

from __future__ import annotations

import libcst as cst

from xlaport.rewrite import templates
from xlaport.rewrite.ops import EditCall

NOTHING = cst.SimpleWhitespace("")
SPACE = cst.SimpleWhitespace(" ")


def edited(call: cst.Call, op: EditCall, config: cst.PartialParserConfig) -> cst.Call:
    call = without(call, op)
    for name, template in op.set_keywords:
        call = with_keyword(call, name, templates.expression(template, {}, config))
    return call


def without(call: cst.Call, op: EditCall) -> cst.Call:
    kept, position = [], 0
    for arg in call.args:
        is_positional = arg.keyword is None and not arg.star
        drop = position in op.remove_positions if is_positional else (
            arg.keyword is not None and arg.keyword.value in op.remove_keywords
        )
        position += is_positional
        if not drop:
            kept.append(arg)
        elif kept and ends_line(arg) and not ends_line(kept[-1]):
            kept[-1] = kept[-1].with_changes(comma=arg.comma)
    if not kept:
        return call.with_changes(args=[], whitespace_before_args=NOTHING)
    if kept[-1] is not call.args[-1]:
        comment = comment_after(kept[-1])
        kept[-1] = commented(ended_as(kept[-1], call.args[-1]), comment)
    return call.with_changes(args=kept)


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """A keyword that is there gets the value in its place; a new one comes last, in front of `**rest`."""
    args = list(call.args)
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[index] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    equal = cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING)
    added = cst.Arg(value, keyword=cst.Name(name), equal=equal)
    if not args:
        return call.with_changes(args=[added])
    last, step = args[-1], gap(call)
    if last.star == "**":
        return call.with_changes(args=[*args[:-1], added.with_changes(comma=cst.Comma(whitespace_after=step)), last])
    comment = comment_after(last)
    if comment is not None and not is_newline(step):
        step = end_of(last)
    before = commented(last.with_changes(comma=cst.Comma(whitespace_after=step), whitespace_after_arg=NOTHING), comment)
    return call.with_changes(args=[*args[:-1], before, commented(ended_as(added, last), None)])


def gap(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What stands between two arguments of this call: a new line with their indentation, or a space."""
    commas = [arg.comma for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    written = [*(comma.whitespace_after for comma in commas), call.whitespace_before_args]
    found = next((space for space in written if is_newline(space)), SPACE)
    return bare(found) if is_newline(found) else found


def is_newline(space: cst.BaseParenthesizableWhitespace) -> bool:
    return isinstance(space, cst.ParenthesizedWhitespace)


def ends_line(arg: cst.Arg) -> bool:
    return isinstance(arg.comma, cst.Comma) and is_newline(arg.comma.whitespace_after)


def bare(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """A line break without the comments written there."""
    first = cst.TrailingWhitespace(whitespace=NOTHING, newline=space.first_line.newline)
    return space.with_changes(first_line=first, empty_lines=[])


def ended_as(arg: cst.Arg, last: cst.Arg) -> cst.Arg:
    """The argument with what follows the last one: a trailing comma or none, and the way to the parenthesis."""
    return arg.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)


def end_of(arg: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    return arg.comma.whitespace_after if isinstance(arg.comma, cst.Comma) else arg.whitespace_after_arg


def comment_after(arg: cst.Arg) -> cst.TrailingWhitespace | None:
    """The end of the line an argument is on, when there is a comment."""
    space = end_of(arg)
    return space.first_line if is_newline(space) and space.first_line.comment is not None else None


def commented(arg: cst.Arg, comment: cst.TrailingWhitespace | None) -> cst.Arg:
    """The argument with another comment, or none, behind it on its line."""
    space = end_of(arg)
    if not is_newline(space):
        return arg
    if comment is None:
        comment = bare(space).first_line
    space = space.with_changes(first_line=comment)
    if isinstance(arg.comma, cst.Comma):
        return arg.with_changes(comma=arg.comma.with_changes(whitespace_after=space))
    return arg.with_changes(whitespace_after_arg=space)
