"""Which torch APIs a repository uses, and how the target runs them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping

from xlaport import opstatus
from xlaport.analysis.project import Module, Project
from xlaport.findings import Location
from xlaport.reports.migrate.model import ApiUse
from xlaport.source import is_python
from xlaport.targets.base import Target

Find = Callable[[str, int, str], ApiUse | None]
"""An API's name, how often it is called, and where first -> what is said of it."""

LOOKED_AT = ("torch.", "torchvision.ops.")
LEFT_OUT = ("torch.cuda", "torch.distributed", "torch.utils", "torch.optim", "torch.backends", "torch.amp", "torch.autograd", "torch.jit", "torch.hub", "torch.multiprocessing", "torch.profiler", "torch.accelerator", "torch.device", "torch.load", "torch.save", "torch.compile")


def used(project: Project, target: Target) -> tuple[ApiUse, ...]:
    """Every function and module of torch that is called, most used first within its status.

    Of a target where nothing falls back to the host, those that lack a kernel; of one that only reports, none.
    """
    if target.only_reports:
        return ()
    find = measured(opstatus.load()) if target.falls_back else lacking(opstatus.missing(target.name, target.versions))
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for path, source in project.sources.items():
        module = project.parsed(path) if is_python(path) and "torch" in source.text else None
        if module is not None:
            for name, line in called(module):
                counts[name] += 1
                first.setdefault(name, f"{source.name}:{Location(line, 1, line, 1).within(source.cell_at(line)).shown}")
    uses = [use for name, count in counts.items() if (use := find(name, count, first[name])) is not None]
    return tuple(sorted(uses, key=lambda use: (use.status, -use.count, use.name)))


def called(module: Module):
    for call in module.facts.of(ast.Call):
        for name in module.names.qualified(call.func):
            if name.startswith(LOOKED_AT) and not name.startswith(LEFT_OUT):
                yield name, call.lineno


def measured(table: opstatus.OpStatusTable) -> Find:
    def status_of(name: str, count: int, first: str) -> ApiUse | None:
        found = table.lookup(name)
        if found is None:
            return ApiUse(name, "unknown", "not measured", count, first) if is_operation(name) else None
        if found.status is opstatus.Status.HOST:
            return None
        return ApiUse(name, found.status.value, found.detail, count, first)

    return status_of


def lacking(table: Mapping[str, opstatus.Missing]) -> Find:
    def status_of(name: str, count: int, first: str) -> ApiUse | None:
        found = table.get(name)
        if found is None:
            return None
        where = "" if found.always else " for some arguments"
        operators = ", ".join(f"aten::{operator}" for operator in found.always or found.sometimes)
        return ApiUse(name, "error" if found.always else "partial", f"no kernel{where}: {operators}", count, first)

    return status_of


def is_operation(name: str) -> bool:
    """A function or layer, not a setting or a class of the framework."""
    return name.count(".") <= 3 and not name.rpartition(".")[2].startswith(("set_", "get_", "is_", "_", "no_grad", "manual_seed", "save", "load"))
