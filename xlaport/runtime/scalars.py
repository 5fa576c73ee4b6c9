"""Scalars a program names itself, for `xlaport verify` to compare: an accuracy, a part of the loss, a norm.

    from xlaport.runtime.scalars import watch
    watch("kl", kl)                     # a one-element tensor, or a number; nothing happens outside of xlaport verify
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WATCHERS: list[Callable[[str, Any], None]] = []
"""What a watched program calls; empty in any other."""


def watch(name: str, value: Any) -> None:
    """Record a one-element tensor or number under a name. It stays on its device, and is read once it is computed."""
    for watcher in WATCHERS:
        watcher(name, value)
