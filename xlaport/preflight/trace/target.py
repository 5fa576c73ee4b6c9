"""The step that a request names: the dict of a factory, or a model of transformers. No torch_xla here."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlaport.errors import UserError
from xlaport.preflight.trace import contract
from xlaport.preflight.trace.contract import Step


def described(request: Mapping[str, Any], devices: int) -> Step:
    if request["huggingface"]:
        from xlaport.preflight.trace import huggingface

        return huggingface.step(request["huggingface"], devices)
    with contract.without_exit(request["factory"]):
        function, name = loaded(request["factory"])
    arguments = dict(request["arguments"])
    parameters = inspect.signature(function).parameters
    accepts_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    unknown = [key for key in arguments if key not in parameters and not accepts_any]
    if unknown:
        raise UserError(f"{name} has no parameter {', '.join(unknown)}")
    if "chips" in parameters:
        arguments.setdefault("chips", request["chips"])
    with contract.without_exit(name):
        made = function(**arguments)
    return contract.read(made, name)


def loaded(target: str) -> tuple[Any, str]:
    """`package.module:function` or `path/file.py:function`; raises `UserError` when there is none."""
    where, _, name = target.rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    if where.endswith(".py"):
        module = from_file(Path(where))
    else:
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name and where.startswith(error.name):
                raise UserError(f"there is no module {where} (looked for from {Path.cwd()})") from None
            raise
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{where} has no function {name}")
    return function, target


def from_file(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"{file}: no such file")
    sys.path.insert(0, str(file.resolve().parent))
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
