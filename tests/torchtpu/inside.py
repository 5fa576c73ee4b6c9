"""Runs beside the real torch-tpu, without a TPU: answers what each call and expression does there, as JSON.

Standard input: {"calls": [[name, positional, keywords, open], ...], "raising": [expression, ...], "values": [expression, ...], "modules": [name, ...]}.
`open`: the call has a starred argument, so only its names are looked for.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from contextlib import redirect_stdout

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")

import torch
import torch_tpu._loader


def resolved(name: str):
    """The object behind a dotted name; its modules are imported on the way. Raises AttributeError or ImportError."""
    parts = name.split(".")
    value = importlib.import_module(parts[0])
    for index, part in enumerate(parts[1:], 1):
        if not hasattr(value, part):
            importlib.import_module(".".join(parts[: index + 1]))
        value = getattr(value, part)
    return value


def call_problem(name: str, positional: int, keywords: list[str], is_open: bool) -> str:
    try:
        function = resolved(name)
    except (AttributeError, ImportError) as error:
        return f"{name}: {error}"
    if is_open:
        return ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""  # a function of C++ says nothing of its arguments
    try:
        signature.bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError as error:
        return f"{name}{signature}: {error}"
    return ""


def raised(expression: str) -> str:
    """The kind and text of what it raises; empty when it raises nothing."""
    try:
        eval(expression, {"torch": torch})
    except Exception as error:  # noqa: BLE001 - what it raises is the answer
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    asked = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        torch_tpu._loader._init_device("tpu")
        answers = {
            "calls": [problem for call in asked.get("calls", ()) if (problem := call_problem(*call))],
            "raising": {expression: raised(expression) for expression in asked.get("raising", ())},
            "values": {expression: repr(eval(expression, {"torch": torch})) for expression in asked.get("values", ())},
            "modules": {name: raised(f"__import__('importlib').import_module({name!r})") for name in asked.get("modules", ())},
        }
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
