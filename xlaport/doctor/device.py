"""A small program, compiled and run on the device, in a child process that is ended when it hangs."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xlaport.doctor import chips
from xlaport.doctor.check import Check, Surroundings, error, ok, warning
from xlaport.doctor.probe import SIDE
from xlaport.explain import pages
from xlaport.explain.recognise import recognise
from xlaport.explain.text import lines_of
from xlaport.preflight import children

SLOW = 20.0
"""Seconds for the small product. It takes 0.1 s on XLA:CPU, and a few seconds where a TPU was just started."""


def check_device(here: Surroundings) -> Iterator[Check]:
    backend = next((name for name in ("torch_xla", "torch_tpu") if name in here.installed), None)
    if backend is None or "torch" not in here.installed:
        return  # said by the checks of versions
    child = children.Child("the program on the device", here.python, "xlaport.doctor.probe", surroundings_of_child(here), here.seconds)
    with tempfile.TemporaryDirectory(prefix="xlaport-doctor-") as folder:
        ended = children.run(child, {"backend": backend}, Path(folder))
    answer = ended.answer or {}
    if "error" in answer or not answer:
        yield failed(answer.get("error") or ended.death, ended.errors)
        return
    counted = f"{answer['count']} {answer['type']} device{'' if answer['count'] == 1 else 's'}"
    yield ok("devices", counted if answer["local"] == answer["count"] else f"{counted}, {answer['local']} of them at this host")
    if answer["type"] != "TPU" and chips.count(here):
        yield warning("devices", f"the machine has TPU chips, and programs run on {answer['type']}", "see the other lines; PJRT_DEVICE=TPU makes it an error")
    if answer["value"] != SIDE:
        yield error("compile_and_run", f"a product of ones gave {answer['value']} and should give {SIDE}", "reboot the machine; if it stays, make another")
    elif answer["seconds"] > SLOW:
        yield warning("compile_and_run", f"a small program took {answer['seconds']:.1f} s to compile and run", "look for other load: top")
    else:
        yield ok("compile_and_run", f"a small program compiled and ran in {answer['seconds']:.1f} s")


def surroundings_of_child(here: Surroundings) -> dict[str, str]:
    """The user's own choice of device stays. Without chips libtpu, which is only asked for on a TPU, need not look for a server."""
    if chips.count(here) or here.environment.get("PJRT_DEVICE"):
        return {}
    return {"TPU_SKIP_MDS_QUERY": "1"}


def failed(said: str, errors: str) -> Check:
    """What explain knows of the message is the mend."""
    diagnosis = recognise(lines_of(io.BytesIO(f"{errors}\n{said}".encode())), pages.builtin())
    first = next(iter(said.splitlines()), said)
    if not diagnosis.is_explained:
        return error("compile_and_run", f"a small program did not run: {first}", "xlaport explain on the log of your program")
    entry = diagnosis.found[0].entry
    return error("compile_and_run", f"a small program did not run: {entry.summary} ({first})", f"xlaport explain --entry {entry.code}")
