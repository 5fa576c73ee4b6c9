"""Settings of a run: `[tool.xlaport]` of the nearest pyproject.toml, overridden by the command line."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from xlaport.errors import UserError
from xlaport.targets import PROFILES, SOURCES
from xlaport.targets.base import Target
from xlaport.targets.torch_xla import SPELLINGS

DISTRIBUTED = ("auto", "spmd", "mp", "keep")


def setting(default, says: str, shown: str = "none", option: str = ""):
    """A field of `Settings`, with what the reference (docs/configuration.md) says of it: its default in words, and the option that overrides it."""
    return field(default=default, metadata={"says": says, "shown": shown, "option": option})


@dataclass(frozen=True)
class Settings:
    """`[tool.xlaport]`, checked. `source` is what the code was written for, `--from`; tables are tuples of pairs."""

    select: tuple[str, ...] = setting(
        (), "rules whose edits are made, by code or the start of one: `XP1` is all of XP100 to XP199", "all rules", "--select CODES"
    )
    ignore: tuple[str, ...] = setting((), "rules whose edits are not made; goes before `select`", option="--ignore CODES")
    distributed: str = setting(
        "auto", "what DDP and FSDP programs become: `auto`, `spmd`, `mp` or `keep`; see [MIGRATION.md](../MIGRATION.md#several-chips)",
        '`"auto"`', "--distributed MODE",
    )
    spelling: str = setting(
        "xm", '`"xm"` writes `xm.xla_device()`, as most guides do; `"2.x"` writes `torch_xla.device()`, which has no deprecation warning', '`"xm"`'
    )
    exclude: tuple[str, ...] = setting(
        (), "files and folders that are not read: a name, a pattern of a name (`*`, `?`, `[...]`), or a pattern of a path below the migrated"
        " folder; for `lint`, below the folder of `pyproject.toml`",
    )
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = setting(
        (), "a table: for files and folders named as in `exclude`, codes that `lint` does not report there"
    )
    extend_rules: tuple[str, ...] = setting(
        (), "rule pages of your own for `lint`, files or folders relative to `pyproject.toml`; see [below](#rules-of-your-own)"
    )
    target: str = setting("torch_xla", "what a program is ported to: `torch_xla` or `torchtpu`", '`"torch_xla"`', "--target NAME")
    source: str = setting(
        "cuda", "what it is written for: `cuda`, or `torch_xla` for a port that goes on to `torchtpu`", '`"cuda"`', "--from NAME"
    )
    runtime_library: bool = setting(
        False, "distributed programs become sharded ones that import `xlaport.runtime`; see [distributed.md](distributed.md#with-the-runtime-library)",
        "`false`", "--runtime-library",
    )

    @property
    def profile(self) -> Target:
        """How the target spells what the rules speak of."""
        return SPELLINGS[self.spelling] if self.target == "torch_xla" else PROFILES[self.target]

    def selects(self, code: str) -> bool:
        if any(code.startswith(prefix) for prefix in self.ignore):
            return False
        return not self.select or any(code.startswith(prefix) for prefix in self.select)

    def excludes(self, name: str) -> bool:
        """Is a file, or a folder it is in, named by `exclude`? `name` is relative to what was asked for."""
        return any(is_named(name, pattern) for pattern in self.exclude)

    def ignores_in(self, name: str, code: str) -> bool:
        """Is a code left out in this file? `name` is relative to the settings' folder."""
        return any(code.startswith(codes) and is_named(name, pattern) for pattern, codes in self.per_file_ignores)


def is_named(name: str, pattern: str) -> bool:
    """Does a pattern match a file's path, a folder above it, or the name of either?"""
    path = PurePosixPath(name)
    above = (parent.as_posix() for parent in path.parents)
    return any(fnmatchcase(part, pattern.rstrip("/")) for part in (name, *above, *path.parts))


def codes_of(text: str) -> tuple[str, ...]:
    """`xp1, XP203` of the command line -> codes or prefixes."""
    return tuple(code.strip().upper() for code in text.split(",") if code.strip())


def load(start: Path) -> Settings:
    """Settings of the project that holds `start`; defaults without any. Raises `UserError` for a bad table."""
    file = file_for(start)
    return from_file(file) if file else Settings()


def file_for(start: Path) -> Path | None:
    """The nearest pyproject.toml, from `start` upwards to the root of its work tree."""
    for folder in [start, *start.parents]:
        file = folder / "pyproject.toml"
        if file.is_file():
            return file
        if (folder / ".git").exists():
            return None
    return None


def from_file(file: Path) -> Settings:
    import tomllib  # here, as many runs find no file: 4 ms

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
        if name == "per_file_ignores":
            values[name] = ignores_from(value, file)
            continue
        if not is_like(value, default):
            kind = "a list of strings" if isinstance(default, tuple) else "true or false" if isinstance(default, bool) else "a string"
            raise UserError(f"{file}: [tool.xlaport] {key} is {kind}, not {value!r}")
        values[name] = tuple(value) if isinstance(default, tuple) else value
    if "extend_rules" in values:
        values["extend_rules"] = tuple(str(file.parent / name) for name in values["extend_rules"])
    return Settings(**values)


def ignores_from(value: object, file: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict) or not all(is_strings(codes) for codes in value.values()):
        raise UserError(f"{file}: [tool.xlaport] per-file-ignores is a table of patterns with lists of codes, not {value!r}")
    return tuple((pattern, tuple(code.upper() for code in codes)) for pattern, codes in value.items())


def is_like(value: object, default: object) -> bool:
    return is_strings(value) if isinstance(default, tuple) else isinstance(value, type(default))


def is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def checked(settings: Settings, where: str) -> Settings:
    if settings.distributed not in DISTRIBUTED:
        raise UserError(f"{where}: distributed is one of {', '.join(DISTRIBUTED)}, not {settings.distributed!r}")
    if settings.spelling not in SPELLINGS:
        raise UserError(f"{where}: spelling is one of {', '.join(SPELLINGS)}, not {settings.spelling!r}")
    if settings.target not in PROFILES:
        raise UserError(f"{where}: target is one of {', '.join(PROFILES)}, not {settings.target!r}")
    if settings.source not in SOURCES:
        raise UserError(f"{where}: from is one of {', '.join(SOURCES)}, not {settings.source!r}")
    if settings.source == settings.target:
        raise UserError(f"{where}: from {settings.source} to {settings.target} there is nothing to migrate: name another target")
    if settings.target != "torch_xla" and (settings.spelling != "xm" or settings.distributed not in ("auto", "keep")):
        raise UserError(f"{where}: spelling, and distributed = {settings.distributed!r}, are of the target torch_xla, not of {settings.target}")
    if settings.runtime_library and (settings.target != "torch_xla" or settings.distributed not in ("auto", "spmd")):
        raise UserError(f"{where}: the runtime library is for sharded programs (distributed = auto or spmd) of the target torch_xla")
    return settings
