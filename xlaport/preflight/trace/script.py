"""The route for programs: a migrated script runs on XLA:CPU, unmodified, until its step repeats; that step is the program.

Every way to end a step (`torch_xla.sync()`, `xm.mark_step()`, `xm.optimizer_step(barrier=True)`, MpDeviceLoader) comes
through one native call, which is watched here. The graph is taken before it runs, as the sync would compile it.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch_xla
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch.optim.optimizer import register_optimizer_step_post_hook

from xlaport.errors import UserError
from xlaport.preflight.step import Argument
from xlaport.preflight.trace import lazy, lines, living, program, sharding, stablehlo, unsteady
from xlaport.preflight.trace.apart import Apart
from xlaport.preflight.trace.living import Living
from xlaport.preflight.trace.program import Named
from xlaport.preflight.trace.steady import Steadiness, Sync
from xlaport.preflight.trace.unsteady import Graph
from xlaport.preflight.trace.uploads import Uploads
from xlaport.preflight.trace.watch import Watch
from xlaport.preflight.trace.writing import write
from xlaport.runtime import launcher

TO_ANSWER = 5.0
"""Seconds before its time is up in which the process writes its answer."""

REMEMBERED = 4
"""Graphs whose texts are kept to say why no step repeats."""


def trace(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Run the script of the request until its step is known; does not return then, since the step's answer ends the process."""
    recorder = Recorder(folder, request["steps"])
    recorder.install(spmd_wanted=request["devices"] > 1 and not request["spmd"])
    answer_before_exit(recorder)
    answer_in_time(recorder, request["deadline"])
    file = Path(request["script"]).resolve()
    sys.argv = [request["script"], *request["arguments"]]
    sys.path.insert(0, str(file.parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    except sharding.AsksForSpmd:
        return {"status": "spmd"}
    except SystemExit as ended:
        if ended.code not in (None, 0):
            said = ended.code if isinstance(ended.code, int) else repr(str(ended.code).partition("\n")[0])
            return failed(f"the script ended with {said}", recorder, printed=True, broke=True)
    except UserError:
        raise
    except Exception as error:
        import traceback

        if wants_launcher(error):
            return {"status": "launched"}

        from xlaport.preflight.trace.child import raised

        traceback.print_exc()
        return failed(f"the script raised {raised(error)}", recorder, broke=True)
    return failed("the script ended", recorder)


def failed(how: str, recorder: Recorder, printed: bool = False, broke: bool = False) -> dict[str, Any]:
    """The answer when the program ended: the step, if it was known by then. `printed`: what it printed last may say why.
    `broke`: it ended for an error, which is the cause where it had not come to a sync."""
    if recorder.is_known:
        return recorder.answer()
    why = how if broke and not recorder.steadiness.seen else f"{how} before a step repeated: {recorder.why_not()}"
    return {"status": "error", "error": why, "sites": [], "printed": printed}


def wants_launcher(error: Exception) -> bool:
    """Whether a program raised for a variable that torchrun sets and that is not set: by `os.environ`, or in torch's `env://`."""
    missing = [name for name in launcher.alone() if name not in os.environ]
    if isinstance(error, KeyError):
        return bool(error.args) and error.args[0] in missing
    return isinstance(error, ValueError) and any(f"environment variable {name} expected" in str(error) for name in missing)


def answer_before_exit(recorder: Recorder) -> None:
    """A program that ends itself by `os._exit` is answered like one that ends. Processes that it forked end as they would."""
    process, leave = os.getpid(), os._exit

    def exit_answered(status: int) -> None:
        if os.getpid() == process:
            recorder.leave(failed(f"the script left by os._exit({status})", recorder, printed=status != 0, broke=status != 0))
        leave(status)

    os._exit = exit_answered


def answer_in_time(recorder: Recorder, deadline: float) -> None:
    """Why there is no step yet, before the parent ends this process at `deadline` (of `time.time()`). Compiling leaves the interpreter to this thread."""
    late = threading.Timer(deadline - TO_ANSWER - time.time(), lambda: recorder.leave(failed("the time was up (--timeout)", recorder)))
    late.daemon = True
    late.start()


@dataclass(frozen=True)
class Captured:
    """The graph of one sync, as it would be compiled."""

    bytecode: bytes
    arguments: list[Argument]
    outputs: int
    operations: int


class Recorder:
    """Looks at each sync of a program: until its graphs repeat, then at one period whose largest graph is kept, then at one
    more in which every operation is watched. Watched steps are not kept: autograd accumulates otherwise under a mode."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.most = most
        self.steadiness = Steadiness()
        self.graphs: dict[str, Graph] = {}
        self.updates = False
        self.apart = Apart()
        self.uploads = Uploads()
        self.gradients: dict[int, Named] = {}
        self.expected: list[Sync] = []
        self.kept: list[Captured] = []
        self.watch: Watch | None = None
        self.left = 0
        self.trainable = 0

    def install(self, spmd_wanted: bool) -> None:
        register_optimizer_step_post_hook(self.on_update)
        self.apart.install()
        self.uploads.install()
        native = torch_xla._XLAC._xla_step_marker

        def step_marker(*args: Any, **kwargs: Any) -> Any:
            self.on_sync()
            result = native(*args, **kwargs)
            self.uploads.after_sync()
            return result

        torch_xla._XLAC._xla_step_marker = step_marker
        spawn = xmp.spawn
        xmp.spawn = lambda fn, args=(), nprocs=None, **settings: spawn(fn, args=args, nprocs=1, **settings)
        if spmd_wanted:
            sharding.refuse_spmd()

    def on_update(self, *_: Any) -> None:
        self.updates = True

    def on_sync(self) -> None:
        apart = self.apart.ran()
        if not lazy.waiting() and not apart:
            return
        if self.watch:
            self.count_watched()
            return
        alive = living.look()
        text = lazy.text([])
        sync = Sync(stablehlo.fingerprint(text), self.updates, apart)
        self.updates = False
        self.uploads.before_sync(alive)
        self.take(sync, alive, text)
        self.gradients = alive.gradients()

    def take(self, sync: Sync, alive: Living, text: str) -> None:
        if self.expected and sync == self.expected[len(self.kept) - 1]:
            self.keep(alive, text)
            return
        self.expected, self.kept = [], []
        self.steadiness.add(sync)
        self.remember(sync, alive, text)
        if self.steadiness.period:
            self.expected = self.steadiness.seen[-self.steadiness.period :]  # this sync is the last one of it
            if any(sync.apart for sync in self.expected):
                self.leave({"status": "error", "error": self.apart.sentence(), "sites": []})
            self.keep(alive, text)
        elif len(self.steadiness.seen) >= self.most:
            self.leave(failed(f"{self.most} syncs were made (--steps)", self))

    # -- the step that is kept

    def keep(self, alive: Living, text: str) -> None:
        """Take the graph of one sync of the period; after the last one, watch."""
        step = stablehlo.read(text)
        self.kept.append(Captured(lazy.bytecode([]), self.table(step, alive), lazy.waiting(), len(step.operations)))
        if len(self.kept) == len(self.expected):
            self.trainable = sum(parameter.numel() * parameter.element_size() for parameter in alive.trained() if parameter.requires_grad)
            self.left = len(self.kept)
            self.watch = Watch()
            self.watch.__enter__()

    def count_watched(self) -> None:
        self.left -= 1
        if not self.left:
            self.leave(self.answer())

    @property
    def is_known(self) -> bool:
        return self.watch is not None

    def table(self, step: stablehlo.Program, alive: Living) -> list[Argument]:
        return matched(step, program.arguments(alive.tensors, alive.names(self.gradients), self.uploads.batch(len(self.expected) or 1)))

    def answer(self) -> dict[str, Any]:
        kept = max(self.kept, key=lambda captured: captured.operations)
        parameters = [argument for argument in kept.arguments if argument.kind == "parameter"]
        return {
            "status": "ok",
            "parameters": sum(prod(argument.shape) for argument in parameters),
            "trainable_bytes": self.trainable,
            "outputs": kept.outputs,
            "sites": self.watch.found.as_json(),
            "layers": 0,
            "notes": self.notes(),
            "spmd": xr.is_spmd(),
            "drop_returned_arguments": True,
            "steps": len(self.steadiness.seen),
            **write(self.folder, kept.bytecode, kept.arguments),
        }

    def notes(self) -> list[str]:
        found = []
        different = len({sync.graph for sync in self.expected})
        if different > 1:
            found.append(
                f"a step is {len(self.expected)} syncs with {different} different graphs; this is the largest, the time of the others is not counted"
            )
        if self.left:
            found.append("the script ended before a whole step could be watched for reads and operations on the host")
        return found

    # -- when none is

    def remember(self, sync: Sync, alive: Living, text: str) -> None:
        """Keep what the last different graphs are, for `why_not`."""
        if sync.graph in self.graphs:
            self.graphs[sync.graph] = self.graphs.pop(sync.graph)
            return
        step = stablehlo.read(text)
        self.graphs[sync.graph] = Graph(step, tuple(argument.name for argument in self.table(step, alive)))
        while len(self.graphs) > REMEMBERED:
            del self.graphs[next(iter(self.graphs))]

    def why_not(self) -> str:
        seen = self.steadiness.seen
        if self.apart.has_run or any(sync.apart for sync in seen):
            return self.apart.sentence()
        if not seen:
            return "it never made a sync (torch_xla.sync(), xm.mark_step() or xm.optimizer_step(optimizer, barrier=True))"
        last = [sync.graph for sync in seen if sync.updates or self.steadiness.never_trains]
        if not last:
            return f"{len(seen)} syncs, none after an optimizer's step"
        different = list(dict.fromkeys(reversed(last)))[:2]
        if len(different) < 2 or not all(graph in self.graphs for graph in different):
            return f"{len(seen)} syncs are too few to see; give it more steps"
        return f"{len(seen)} syncs with {len(set(last))} different graphs: {unsteady.cause(self.graphs[different[1]], self.graphs[different[0]], lines.is_users)}"

    def leave(self, answer: dict[str, Any]) -> None:
        from xlaport.preflight.trace import child

        sys.stdout.flush()
        child.leave(self.folder, answer)


def matched(text: stablehlo.Program, known: list[Argument]) -> list[Argument]:
    """The table in the order of the program of all living tensors. Hidden ones may move an argument; equal types keep their order."""
    waiting: dict[str, list[Argument]] = {}
    for argument in known:
        waiting.setdefault(stablehlo.type_of(argument.shape, argument.dtype), []).append(argument)
    found = []
    for kind, spec in zip(text.types, text.shardings):
        argument = waiting[kind].pop(0) if waiting.get(kind) else unknown(kind)
        found.append(replace(argument, sharding=spec, bytes=argument.bytes // sharding.shards(spec)))
    return found


def unknown(kind: str) -> Argument:
    """An argument of no tensor that Python can reach."""
    *extents, dtype = kind.removeprefix("tensor<").removesuffix(">").split("x")
    shape = tuple(map(int, extents))
    names = {mlir: name for name, mlir in stablehlo.TYPES.items()}
    name = names.get(dtype, "float32")
    size = prod(shape) * getattr(torch, name).itemsize
    return Argument("state" if shape else "scalar", "", shape, name, size, None, False)
