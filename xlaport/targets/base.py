"""What a target profile says."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

NAME = re.compile(r"\b(\w+)\.")


@dataclass(frozen=True)
class Target:
    """`spell` maps a placeholder of a rule's template or sentence to source or words; `imports` an alias to its import.

    The order of `imports` is the order in which they are written.
    """

    name: str
    title: str
    """What a report calls it."""

    versions: str
    device_type: str
    package: str
    """The distribution that brings it, by its normalized name."""

    dist_backend: str
    spell: dict[str, str] = field(repr=False)
    imports: dict[str, str] = field(repr=False)
    requirements: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    """Packages that must match the version of torch, pinned where a project lists them."""

    python: str = "3.10"
    """The oldest Python its packages are built for."""

    torch: tuple[str, str] = ("", "")
    """The first and last minor release of torch it runs on, as `2.9`."""

    launcher: str = ""
    """What starts a program's processes, or prepares their environment."""

    compile_backend: str = ""
    """The backend `torch.compile` must be given; empty where torch finds it by the tensors."""

    compile_raises: frozenset[str] = frozenset()
    """Backends of `torch.compile` that raise for tensors of the device."""

    renamed_variables: dict[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of earlier releases, which nothing reads any more -> what is read."""

    falls_back: bool = True
    """Does an operator without a kernel run on the host? Else it raises."""

    only_reports: str = ""
    """Why nothing is rewritten for it; empty where programs are. Rules that do not name such a target say nothing there."""

    own: frozenset[str] = frozenset()
    """Names of torch that the target answers itself: no idiom of CUDA there."""

    distributed: str = ""
    """The one way its programs are parallel, a value of `--distributed`; empty where `--distributed` says."""

    autocast_dtype: str = ""
    """The type autocast must be given; empty where its default is right."""

    stated: dict[str, str] = field(default_factory=dict, repr=False)
    """What the profile says -> where that was read or seen, and when."""

    def expand(self, template: str, holes: Collection[str] = ()) -> str:
        """Put this target's spelling for `{device}`, `{sync}`, ... into a template; a hole of the same name stays one."""
        for name, code in self.spell.items():
            if name not in holes:
                template = template.replace("{" + name + "}", code)
        return template

    def aliases_in(self, code: str) -> list[str]:
        """The import aliases that an expanded template uses; a device without a module of its own needs its name registered."""
        used = set(NAME.findall(code))
        if self.spell["lazy_device"] in code:
            used.update(self.registers)
        return [alias for alias in self.imports if alias in used]

    @property
    def registers(self) -> tuple[str, ...]:
        """The import that makes the device's name known to torch, where torch does not find it by itself."""
        return ("torch_xla",) if "torch_xla" in self.imports else ()
