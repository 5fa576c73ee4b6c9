"""Runs inside a training script, as a `--shim` of the corpus's driver: which lines of a port wait for the device.

Reads XLAPORT_LINES, a JSON object: `out` (the file to write), `root` (the folder of ports) and `skip` (optimizer steps
that are warm-up). torch_xla's counters are read before every line of a file below `root`; what grew belongs to the line
that ran. Written at exit: {"file:line": {"runs": n, "reads": n, "fallbacks": n, "compiles": n}}, after warm-up.
"""

import json
import os
import sys
from collections import defaultdict

SETTINGS = json.loads(os.environ["XLAPORT_LINES"])
ROOT = os.path.realpath(SETTINGS["root"]) + os.sep
KINDS = ("reads", "fallbacks", "compiles")
LINES = defaultdict(lambda: dict.fromkeys(("runs", *KINDS), 0))
STATE = {"steps": 0, "line": None, "seen": (0, 0, 0), "first": None}
TRACKED: dict[str, str | None] = {}


def counters() -> tuple[int, int, int]:
    """(transfers to the host, ops run there, graphs compiled) so far."""
    import torch_xla

    binding = torch_xla._XLAC
    transfers = binding._xla_metric_data("TransferFromDeviceTime")
    compiled = binding._xla_counter_value("UncachedCompile") or 0
    fallen = sum(binding._xla_counter_value(name) or 0 for name in binding._get_executed_fallback_ops() if "_local_scalar_dense" not in name)
    return transfers[0] if transfers else 0, fallen, compiled


def settle(line: str | None) -> None:
    """Give what grew since the last look to the line that ran, and turn to another."""
    if "torch_xla" in sys.modules:
        now = counters()
        if STATE["line"] and STATE["steps"] > SETTINGS["skip"]:
            entry = LINES[STATE["line"]]
            for kind, before, after in zip(KINDS, STATE["seen"], now):
                entry[kind] += after - before
        STATE["seen"] = now
    STATE["line"] = line


def tracked(frame) -> str | None:
    name = frame.f_code.co_filename
    if name not in TRACKED:
        path = os.path.realpath(name)
        TRACKED[name] = path[len(ROOT):] if path.startswith(ROOT) else None
    return TRACKED[name]


def on_call(frame, event, argument):
    return on_line if tracked(frame) else None


def on_line(frame, event, argument):
    if event == "line":
        place = f"{tracked(frame)}:{frame.f_lineno}"
        settle(place)
        if STATE["steps"] > SETTINGS["skip"]:
            LINES[place]["runs"] += 1
    elif event == "return":
        caller = frame.f_back
        settle(f"{tracked(caller)}:{caller.f_lineno}" if caller is not None and tracked(caller) else None)
    return on_line


def count_steps() -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def counted(optimizer, args, kwargs):
        STATE["first"] = STATE["first"] or id(optimizer)
        STATE["steps"] += id(optimizer) == STATE["first"]

    register_optimizer_step_post_hook(counted)


def report_at_exit() -> None:
    leave, owner = os._exit, os.getpid()

    def finish(code: int) -> None:
        if os.getpid() == owner and os.environ.get("RANK", "0") == "0":
            sys.settrace(None)
            with open(SETTINGS["out"], "w", encoding="utf-8") as stream:
                json.dump(LINES, stream)
        leave(code)

    os._exit = finish


count_steps()
report_at_exit()
sys.settrace(on_call)
