"""What `doctor` found, for programs. Within one `version` fields are added, never changed or taken away."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TextIO

from xlaport.doctor.check import Check

VERSION = 1


def doctor(found: Iterable[Check], out: TextIO) -> list[Check]:
    """`version` and `checks`: name, status (ok, warning, error), said, mend."""
    told = list(found)
    checks = [{"name": check.name, "status": check.status.value, "said": check.said, "mend": check.mend} for check in told]
    print(json.dumps({"version": VERSION, "checks": checks}, indent=2), file=out)
    return told
