"""TPU chips of this machine, who holds them, and what the cloud says of it. The chips themselves are not touched."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xlaport.doctor.check import Check, Surroundings, error, ok, warning
from xlaport.doctor.machine import read

GOOGLE = "0x1ae0"
CHIPS = {"0x0027", "0x005e", "0x0063", "0x006f", "0x0053", "0x0056", "0x0062", "0x0076"}
"""PCI device numbers of TPU chips: those torch_xla 2.9 looks for (`torch_xla/_internal/tpu.py`)."""

LOCK = "/tmp/libtpu_lockfile"
METADATA = "169.254.169.254"
"""The metadata server of Google's machines. `GCE_METADATA_HOST` names another, as for Google's own libraries."""

ASK_SECONDS = 1.0
WAIT_SECONDS = 3.0
"""For all questions together: without a network the first may hang longer than its own limit, in the lookup of a name."""


@dataclass(frozen=True)
class Holder:
    pid: int
    command: str


def count(here: Surroundings) -> int:
    """TPU chips on the PCI bus."""
    folder = here.path("/sys/bus/pci/devices")
    try:
        devices = list(folder.iterdir())
    except OSError:
        return 0
    return sum(read(device / "vendor").strip() == GOOGLE and read(device / "device").strip() in CHIPS for device in devices)


def check_chips(here: Surroundings) -> Iterator[Check]:
    chips = count(here)
    if not chips:
        yield ok("chips", "no TPU chip on the PCI bus: programs can be tried on XLA:CPU")
        return
    files = device_files(here)
    if not files:
        yield error("chips", f"{chips} TPU chips on the PCI bus, and no device file of them", "in a container: docker run --privileged --net=host; otherwise reboot the machine")
    elif not all(os.access(file, os.R_OK | os.W_OK) for file in files):
        yield error("chips", f"{chips} TPU chips, whose device files this user may not open", f"ls -l {files[0].parent}; run as a user who may, or sudo chmod a+rw {files[0]}")
    else:
        yield ok("chips", f"{chips} TPU chips")
    if "torch_xla" in here.installed and "libtpu" not in here.installed and not here.environment.get("TPU_LIBRARY_PATH"):
        yield error("libtpu", "libtpu is not installed: the chips cannot be used", "pip install 'torch_xla[tpu]==2.9.*'")
    if here.environment.get("PJRT_DEVICE", "").upper() == "CPU":
        yield warning("PJRT_DEVICE", "PJRT_DEVICE=CPU on a machine with TPU chips: programs run on the host", "unset PJRT_DEVICE")


def device_files(here: Surroundings) -> list[Path]:
    """/dev/accel0 ... (v4 and before) or /dev/vfio/0 ... (v5 and later)."""
    dev = here.path("/dev")
    return sorted([*dev.glob("accel[0-9]*"), *dev.glob("vfio/[0-9]*")])


def check_lock(here: Surroundings) -> Iterator[Check]:
    """One process at a time may hold the chips; the lock of one that was killed stays."""
    holders = list(holders_of(here))
    if holders:
        named = ", ".join(f"{holder.pid} ({holder.command})" for holder in holders[:3])
        yield error("lock", f"the TPU is held by process {named}", f"end it if it is yours: kill {holders[0].pid}")
    elif here.path(LOCK).exists():
        yield warning("lock", f"{LOCK} is there and no process that is seen holds a chip: it may be left from one that was killed", f"sudo rm {LOCK}")
    else:
        yield ok("lock", "no process holds the TPU")


def holders_of(here: Surroundings) -> Iterator[Holder]:
    """Processes with a chip's device file or the lock open, as far as this user may see."""
    held = {os.path.normpath(file) for file in [*device_files(here), here.path(LOCK)]}
    for process in sorted(here.path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            links = [os.path.normpath(os.readlink(link)) for link in (process / "fd").iterdir()]
        except OSError:
            continue  # ended meanwhile, or another user's
        if held.intersection(links):
            yield Holder(int(process.name), read(process / "comm").strip() or "?")


def check_metadata(here: Surroundings) -> Iterator[Check]:
    """libtpu asks the metadata server for the slice, and goes on asking for minutes where there is none."""
    answers = ask_metadata(here.environment.get("GCE_METADATA_HOST") or METADATA)
    skipped = here.environment.get("TPU_SKIP_MDS_QUERY", "") not in ("", "0")
    if not answers:
        yield from without_metadata(here, skipped)
        return
    kind = answers.get("attributes/accelerator-type", "")
    yield ok("metadata", f"the metadata server answers{': ' + kind if kind else ', and names no TPU'}")
    if kind and skipped:
        yield warning("TPU_SKIP_MDS_QUERY", "TPU_SKIP_MDS_QUERY is set on a TPU VM: libtpu does not learn the slice it is in", "unset TPU_SKIP_MDS_QUERY")
    if answers.get("preempted", "").upper() == "TRUE":
        yield error("preempted", "this machine is being taken back (preempted)", "save, and make the TPU again")
    event = answers.get("maintenance-event", "NONE")
    if event not in ("", "NONE"):
        yield warning("maintenance", f"maintenance of this machine is announced: {event}", "save a checkpoint; the machine will be restarted")


def without_metadata(here: Surroundings, skipped: bool) -> Iterator[Check]:
    if skipped:
        yield ok("metadata", "no metadata server, and TPU_SKIP_MDS_QUERY is set: libtpu does not wait for it")
    elif "libtpu" in here.installed:
        yield warning("metadata", "no metadata server answers: libtpu asks it for minutes before it goes on", "export TPU_SKIP_MDS_QUERY=1; on a TPU VM, in a container: docker run --net=host")
    else:
        yield ok("metadata", "no metadata server answers: this is no machine of Google's cloud")


def ask_metadata(host: str) -> dict[str, str]:
    """Answers by name; empty without a server. In a thread, which is left behind if it hangs."""
    answers: dict[str, str] = {}
    thread = threading.Thread(target=question, args=(host, answers), daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)
    return dict(answers)


def question(host: str, answers: dict[str, str]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy would answer for it
    for name in ("attributes/accelerator-type", "preempted", "maintenance-event"):
        request = urllib.request.Request(f"http://{host}/computeMetadata/v1/instance/{name}", headers={"Metadata-Flavor": "Google"})
        try:
            with opener.open(request, timeout=ASK_SECONDS) as answer:
                if answer.headers.get("Metadata-Flavor") != "Google":
                    return  # somebody else listens there
                answers[name] = answer.read(200).decode("utf-8", "replace").strip()
        except urllib.error.HTTPError as failure:
            if failure.headers.get("Metadata-Flavor") != "Google":
                return
            answers[name] = ""  # it is there, and does not know
        except (OSError, ValueError):
            return
