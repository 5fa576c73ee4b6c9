"""What a target profile says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = re.compile(r"\b(\w+)\.")


@dataclass(frozen=True)
class Target:
    """`spell` maps a placeholder of a rule's template to source; `imports` an alias to its import.

    The order of `imports` is the order in which they are written.
    """

    name: str
    versions: str
    device_type: str
    spell: dict[str, str] = field(repr=False)
    imports: dict[str, str] = field(repr=False)
    requirements: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    """Packages that must match the version of torch, pinned where a project lists them."""

    def expand(self, template: str) -> str:
        """Put this target's spelling for `{device}`, `{sync}`, ... into a template."""
        for name, code in self.spell.items():
            template = template.replace("{" + name + "}", code)
        return template

    def aliases_in(self, code: str) -> list[str]:
        """The import aliases that an expanded template uses; the lazy device needs the name registered."""
        used = set(NAME.findall(code))
        if self.spell["lazy_device"] in code:
            used.add("torch_xla")
        return [alias for alias in self.imports if alias in used]
