"""Settings of a run: `[tool.xlaport]` of the nearest pyproject.toml, overridden by the command line."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from xlaport.errors import UserError
from xlaport.targets.base import Target
from xlaport.targets.torch_xla import SPELLINGS

DISTRIBUTED = ("auto", "spmd", "mp", "keep")


@dataclass(frozen=True)
class Settings:
    """`select`/`ignore`: rule codes or prefixes (`XP1`). `spelling`: `xm` or `2.x`.

    `exclude`: patterns of files and folders left alone. See docs/configuration.md.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    distributed: str = "auto"
    spelling: str = "xm"
    exclude: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        return SPELLINGS[self.spelling]

    def selects(self, code: str) -> bool:
        if any(code.startswith(prefix) for prefix in self.ignore):
            return False
        return not self.select or any(code.startswith(prefix) for prefix in self.select)

    def excludes(self, name: str) -> bool:
        """Is a file, or a folder it is in, named by `exclude`? `name` is relative to what was asked for."""
        parts = (name, *PurePosixPath(name).parts)
        return any(fnmatchcase(part, pattern) for pattern in self.exclude for part in parts)


def load(start: Path) -> Settings:
    """Settings of the project that holds `start`; defaults without any. Raises `UserError` for a bad table."""
    for folder in [start, *start.parents]:
        file = folder / "pyproject.toml"
        if file.is_file():
            return from_file(file)
        if (folder / ".git").exists():
            break
    return Settings()


def from_file(file: Path) -> Settings:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return Settings()
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: not TOML: {error}") from None
    table = document.get("tool", {}).get("xlaport", {})
    return checked(from_table(table, file), str(file))


def from_table(table: dict, file: Path) -> Settings:
    defaults = {item.name: item.default for item in fields(Settings)}
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        default = defaults.get(name)
        if default is None:
            raise UserError(f"{file}: [tool.xlaport] has no setting {key!r}")
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (is_list if isinstance(default, tuple) else isinstance(value, str)):
            kind = "a list of strings" if isinstance(default, tuple) else "a string"
            raise UserError(f"{file}: [tool.xlaport] {key} is {kind}, not {value!r}")
        values[name] = tuple(value) if is_list else value
    return Settings(**values)


def checked(settings: Settings, where: str) -> Settings:
    if settings.distributed not in DISTRIBUTED:
        raise UserError(f"{where}: distributed is one of {', '.join(DISTRIBUTED)}, not {settings.distributed!r}")
    if settings.spelling not in SPELLINGS:
        raise UserError(f"{where}: spelling is one of {', '.join(SPELLINGS)}, not {settings.spelling!r}")
    return settings
