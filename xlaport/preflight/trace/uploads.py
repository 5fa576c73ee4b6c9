"""Which arguments of a program's step are its batch: what the host uploaded, new in each step."""

from __future__ import annotations

from typing import Any

import torch
import torch_xla

from xlaport.preflight.trace import lazy, living
from xlaport.preflight.trace.living import Living


class Uploads:
    """Told of each sync. A sync's arguments are those of its graph; `computed` are results of earlier ones, `sent` what loaders upload ahead."""

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.computed: set[int] = set()
        self.arguments: list[set[int]] = []
        self.newest = 0
        self.host_results = 0

    def install(self) -> None:
        native = torch_xla._XLAC._xla_tensors_from_aten

        def tensors_from_aten(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
            made = native(*args, **kwargs)
            self.sent.update(map(lazy.tensor_id, made))
            return made

        torch_xla._XLAC._xla_tensors_from_aten = tensors_from_aten

    def before_sync(self, alive: Living) -> None:
        results = lazy.pending(alive.tensors)
        self.arguments.append(set(lazy.argument_ids(results)[0]))
        self.computed.update(map(lazy.tensor_id, results))

    def after_sync(self) -> None:
        self.newest = lazy.newest_id()
        self.host_results = lazy.host_results()

    def batch(self, period: int) -> set[int]:
        """Of the last sync told of, when steps are so many syncs: no argument of the same graph a step before.

        What has no name and was not sent by a loader is taken for uploaded if it was made since the last sync, and the
        host computed nothing meanwhile: the results of that are uploaded too.
        """
        before = self.arguments[-1 - period] if len(self.arguments) > period else set()
        fresh = self.arguments[-1] - before - self.computed
        named = {lazy.tensor_id(tensor) for _, tensor in living.local_variables() if living.is_leaf(tensor)}
        unsure = lazy.host_results() > self.host_results
        return {number for number in fresh if number in named or number in self.sent or (number > self.newest and not unsure)}
