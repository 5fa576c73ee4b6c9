"""How each torch API runs on a target: on the device, partly or wholly on the host, or not at all.

The facts are generated, never written by hand: `tools/generate_op_status.py` runs PyTorch's own test tables and further
calls on XLA:CPU, forward and backward, while torch_xla's counters say which operators went to the host. What no call
was found for comes from the dispatcher's registrations. The backend that was measured is XLA:CPU; which operators are
lowered is decided in torch_xla's front end, which a TPU shares.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from xlaport.errors import UserError


class Status(str, Enum):
    NATIVE = "native"
    """Every measured call ran on the device, forward and backward."""

    SYNC = "sync"
    """On the device, but every call reads a value back and waits for it."""

    PARTIAL = "partial"
    """Some calls fall back, read back or fail; the `*_when` fields say which."""

    FALLBACK = "fallback"
    """Every call goes to the host, in its forward or in its backward pass."""

    ERROR = "error"
    """Every call raises."""

    HOST = "host"
    """Runs no tensor operation: a data type, a mode, a loader, a setting."""


@dataclass(frozen=True)
class OpStatus:
    """What is known of one API."""

    name: str
    status: Status
    source: str
    """`dispatcher` (registrations; forward pass only), `torch` (runs no operator), or the tables measured:
    `op_db`, `module_db`, `optim_db`, `forms`, joined by `+`."""

    calls: int = 0
    """How many different calls were measured."""

    forward: tuple[str, ...] = ()
    """Operators that ran on the host in the forward pass."""

    forward_when: str | None = None
    """Which calls, when not all of them do; so for every `*_when`."""

    backward: tuple[str, ...] = ()
    backward_when: str | None = None
    reads_when: str | None = None
    error: str | None = None
    error_when: str | None = None
    differs: str | None = None
    """How the result differs from the CPU's, silently."""

    differs_when: str | None = None
    after_others: str | None = None
    """What goes wrong only in a process that made other calls of the API before: a cached graph that fits those."""

    @property
    def detail(self) -> str:
        """One line for a report; empty for an API that simply runs on the device."""
        parts = []
        if self.forward:
            parts.append(_clause("forward pass on the host", self.forward, self.forward_when))
        if self.backward:
            parts.append(_clause("backward pass on the host", self.backward, self.backward_when))
        if self.status is Status.SYNC or self.reads_when:
            parts.append(_clause("waits for a value from the device", (), self.reads_when))
        if self.error:
            parts.append(_clause("raises", (self.error,), self.error_when))
        if self.differs:
            parts.append(_clause("silently differs from the CPU", (self.differs,), self.differs_when))
        if self.after_others:
            parts.append(_clause("goes wrong after calls with other arguments", (self.after_others,), None))
        return "; ".join(parts)


def _clause(what: str, names: tuple[str, ...], when: str | None) -> str:
    named = f"{what} ({', '.join(names)})" if names else what
    return f"{named}: {when}" if when else named


@dataclass(frozen=True)
class OpStatusTable:
    """The status of every API known for one version of a target."""

    target: str
    version: str
    torch: str
    device: str
    """What the calls were measured on."""

    apis: Mapping[str, OpStatus]
    operators: Mapping[str, str]

    def lookup(self, qualified_name: str) -> OpStatus | None:
        """The status of `torch.nonzero`, `torch.Tensor.item`, `torch.nn.GRU`, ...; None when nothing is known."""
        return self.apis.get(qualified_name)

    def operator(self, name: str) -> str | None:
        """How the dispatcher resolves an aten overload (`aten::add.Tensor`), `out=` forms aside.

        `native`; `conditional`, for a kernel that hands some arguments to the host; `composite`, for one that
        decomposes into others; `fallback`.
        """
        return self.operators.get(name.removeprefix("aten::"))

    def counts(self) -> Mapping[Status, int]:
        return Counter(entry.status for entry in self.apis.values())


class _Apis(Mapping[str, OpStatus]):
    """The status of each API, made when it is asked for: a file asks for a few of two thousand, and all take 8 ms."""

    def __init__(self, entries: dict[str, dict[str, Any]]):
        self._entries = entries

    def __getitem__(self, name: str) -> OpStatus:
        return _status(name, self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


DATA = Path(__file__).resolve().parent / "data"


@cache
def load(target: str = "torch_xla", version: str = "2.9") -> OpStatusTable:
    """Reads the committed table of a target's version (major.minor)."""
    try:
        text = (DATA / f"op_status_{target}_{version}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no op status for {target} {version}") from None
    return _table(json.loads(text))


@dataclass(frozen=True)
class Missing:
    """The operators without a kernel that calls of one API come to, as `huber_loss`."""

    always: tuple[str, ...] = ()
    """Of an API each of whose calls comes to one."""

    sometimes: tuple[str, ...] = ()
    """Of an API some of whose calls do."""


@cache
def missing(target: str, version: str) -> Mapping[str, Missing]:
    """Public name (`torch.nn.HuberLoss`, `torch.Tensor.median`) -> what it lacks; of a target that runs nothing on the host."""
    raw = json.loads((DATA / f"op_kernels_{target}_{version}.json").read_text(encoding="utf-8"))
    return {name: Missing(**{how: tuple(names) for how, names in entry.items()}) for name, entry in raw["apis"].items()}


def _table(raw: dict[str, Any]) -> OpStatusTable:
    apis = _Apis({name: entry for entry in raw["apis"] for name in entry["names"]})
    operators = {name: kind for kind, names in raw["aten"].items() for name in names}
    return OpStatusTable(raw["target"], raw["torch_xla"], raw["torch"], raw["device"], apis, operators)


def _status(name: str, entry: dict[str, Any]) -> OpStatus:
    known = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key != "names"}
    return OpStatus(**{**known, "name": name, "status": Status(entry["status"])})
