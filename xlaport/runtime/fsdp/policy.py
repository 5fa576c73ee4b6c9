"""Which modules are units: what is gathered, computed and let go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from torch import nn

from xlaport.errors import UserError

Policy = str | int | type[nn.Module] | Sequence[type[nn.Module] | str] | Set[type[nn.Module]] | Callable[[str, nn.Module], bool] | None

WITHOUT_FORWARD = (nn.ModuleList, nn.ModuleDict)
CONTAINERS = (*WITHOUT_FORWARD, nn.Sequential)


@dataclass(frozen=True, eq=False)
class Unit:
    name: str
    module: nn.Module

    @property
    def label(self) -> str:
        return f"{self.name or 'the model'} ({type(self.module).__name__})"

    def is_below(self, other: Unit) -> bool:
        return not other.name or self.name.startswith(other.name + ".")


def units_of(model: nn.Module, policy: Policy, argument: str = "policy") -> list[Unit]:
    """The units below the model itself, innermost first.

    "auto": the repeated blocks of a model; a class, a name of one, or several: its instances; a number: the smallest
    modules with so many parameters; a function of name and module; None: none.
    """
    if policy is None:
        return []
    if policy == "auto":
        return repeated_blocks(model)
    if isinstance(policy, int) and not isinstance(policy, bool):
        found = by_size(model, policy)
        wanted = f"{policy} parameters"
    elif callable(policy) and not isinstance(policy, type):
        found = [Unit(name, module) for name, module in below(model) if policy(name, module)]
        wanted = getattr(policy, "__name__", repr(policy))
    else:
        found, wanted = by_class(model, policy, argument)
    if not found:
        raise UserError(f"{argument}: {wanted} matches no module of {type(model).__name__}; its modules are {class_names(model)}")
    for unit in found:
        if isinstance(unit.module, WITHOUT_FORWARD):
            raise UserError(f"{argument}: {unit.label} has no forward of its own, and cannot be a unit")
    return sorted(found, key=lambda unit: -unit.name.count("."))


def below(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((name, module) for name, module in model.named_modules() if name)


def repeated_blocks(model: nn.Module) -> list[Unit]:
    """The outermost modules of a class that a list, sequence or dict holds several of, if they are made of modules themselves;
    where none does, those of a class that any module has several of."""
    return list(repeated_in(model, CONTAINERS)) or list(repeated_in(model, (nn.Module,)))


def repeated_in(module: nn.Module, holders: tuple[type[nn.Module], ...], prefix: str = "") -> Iterator[Unit]:
    classes = repeated_classes(module) if isinstance(module, holders) else set()
    for name, child in module.named_children():
        if type(child) in classes:
            yield Unit(f"{prefix}{name}", child)
        else:
            yield from repeated_in(child, holders, f"{prefix}{name}.")


def repeated_classes(holder: nn.Module) -> set[type[nn.Module]]:
    """Those with a forward of their own that it holds more than one of, each made of modules with parameters."""
    counts = Counter(type(member) for member in holder.children() if any(True for _ in member.children()) and any(True for _ in member.parameters()))
    return {kind for kind, count in counts.items() if count > 1 and kind is not nn.Sequential and not issubclass(kind, WITHOUT_FORWARD)}


def by_class(model: nn.Module, policy: Policy, argument: str) -> tuple[list[Unit], str]:
    wanted = [policy] if isinstance(policy, (str, type)) else list(policy) if isinstance(policy, (Sequence, Set)) else []
    if not wanted or not all(isinstance(item, (str, type)) for item in wanted):
        raise UserError(f'{argument}: {policy!r} must be "auto", a class or names of classes, a number of parameters, a function, or None')
    named = {item for item in wanted if isinstance(item, str)}
    classes = tuple(item for item in wanted if isinstance(item, type))
    found = [Unit(name, module) for name, module in below(model) if isinstance(module, classes) or type(module).__name__ in named]
    return found, ", ".join(sorted(item if isinstance(item, str) else item.__name__ for item in wanted))


def by_size(model: nn.Module, least: int) -> list[Unit]:
    """Modules with at least `least` parameters that are in no unit below them, as torch's size_based_auto_wrap_policy."""
    found: list[Unit] = []

    def free(module: nn.Module, name: str) -> int:
        """Parameters of a module outside of the units found in it."""
        count = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        count += sum(free(child, f"{name}.{child_name}" if name else child_name) for child_name, child in module.named_children())
        if name and count >= least and not isinstance(module, WITHOUT_FORWARD):
            found.append(Unit(name, module))
            return 0
        return count

    if least < 1:
        raise UserError(f"policy: {least} parameters; a unit needs at least 1")
    free(model, "")
    return found


def check_shared(model: nn.Module, units: Sequence[Unit]) -> None:
    """A parameter belongs to one unit: two would each gather it, and let it go, at times of their own."""
    owners: dict[int, tuple[str, Unit]] = {}
    for unit in units:
        inner = {id(other.module) for other in units if other is not unit and other.is_below(unit)}
        for name, parameter in own_parameters(unit.module, inner):
            path = f"{unit.name}.{name}"
            first = owners.setdefault(id(parameter), (path, unit))
            if first[1] is not unit:
                raise UserError(f"policy: {first[0]} and {path} are one parameter, shared by the units {first[1].label} and {unit.label}; make a unit that holds both")


def own_parameters(module: nn.Module, inner: set[int], prefix: str = "") -> Iterator[tuple[str, nn.Parameter]]:
    """Parameters with names, of a module and below it, but not of the modules in `inner` (ids)."""
    yield from ((f"{prefix}{name}", parameter) for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False))
    for name, child in module.named_children():
        if id(child) not in inner:
            yield from own_parameters(child, inner, f"{prefix}{name}.")


def class_names(model: nn.Module) -> str:
    names = sorted({type(module).__name__ for _, module in below(model)})
    return ", ".join(names[:8]) + (" and others" if len(names) > 8 else "") if names else "none"
