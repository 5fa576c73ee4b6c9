"""The host: memory, limits, shared memory. Sizes are bytes; thresholds say what was measured."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from xlaport.doctor.check import Check, Surroundings, ok, warning

GIB = 2**30
MEMORY = 8 * GIB
"""Compiling a step of GPT-2 124M took 3.9 GB with libtpu 0.0.21, besides the program itself (docs/preflight.md)."""

OPEN_FILES = 4096
"""A loader worker hands over each tensor of a batch as an open file; 1,024 is the usual limit and is reached."""

SHARED_MEMORY = GIB
"""Containers get 64 MiB; four workers that prefetch two batches of 256 float32 images of 224 x 224 hold 1.2 GB."""


def check_memory(here: Surroundings) -> Iterator[Check]:
    found = available(here)
    if found is None:
        return
    said = f"{found / GIB:.1f} GiB of host memory available"
    if found < MEMORY:
        yield warning("memory", f"{said}: compiling a large step takes more", "end other programs (ps aux --sort=-rss | head), or take a larger machine")
    else:
        yield ok("memory", said)


def available(here: Surroundings) -> int | None:
    """The smaller of what the kernel has left and what the control group of a container allows; None where neither is known."""
    free = [size for size in (from_kernel(here.path("/proc/meminfo")), from_group(here)) if size is not None]
    return min(free, default=None)


def from_kernel(file: Path) -> int | None:
    for line in read(file).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def from_group(here: Surroundings) -> int | None:
    """Limit less use, of version 2 or 1 of control groups."""
    for folder, limit, used in (("", "memory.max", "memory.current"), ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes")):
        allowed, taken = (read(here.path(f"/sys/fs/cgroup/{folder}{name}")).strip() for name in (limit, used))
        if allowed.isdigit() and taken.isdigit():
            return max(0, int(allowed) - int(taken))
    return None


def check_open_files(here: Surroundings) -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        most = "" if hard == resource.RLIM_INFINITY else f" (at most {hard} here)"
        yield warning("open_files", f"a process may open {soft} files: data loader workers use one for each tensor in flight", f"ulimit -n 65536{most}")
    else:
        yield ok("open_files", f"a process may open {'any number of' if soft == resource.RLIM_INFINITY else soft} files")


def check_shared_memory(here: Surroundings) -> Iterator[Check]:
    folder = here.path("/dev/shm")
    try:
        room = os.statvfs(folder)
    except OSError:
        yield warning("shared_memory", "there is no /dev/shm: data loader workers cannot hand batches over", "mount -t tmpfs -o size=16g tmpfs /dev/shm, or num_workers=0")
        return
    free = room.f_bavail * room.f_frsize
    said = f"{free / GIB:.1f} GiB of shared memory free (/dev/shm)"
    if free < SHARED_MEMORY:
        yield warning("shared_memory", f"{said}: data loader workers hand batches over there", "docker run --shm-size=16g, or: sudo mount -o remount,size=16g /dev/shm")
    else:
        yield ok("shared_memory", said)


def check_cache(here: Surroundings) -> Iterator[Check]:
    """The persistent compilation cache. torch_xla reads the path from the program (`xr.initialize_cache`), or from the variable it sets."""
    name = "XLA_PERSISTENT_CACHE_PATH" if "torch_xla" in here.installed else "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"
    path = here.environment.get(name, "")
    if not path:
        start = "xr.initialize_cache(path) before the first computation" if "torch_xla" in here.installed else f"{name}=path"
        yield ok("compilation_cache", f"no persistent compilation cache is set: every start compiles anew ({start} keeps graphs)")
    elif "://" in path:
        yield ok("compilation_cache", f"compiled graphs are kept in {path}")
    elif not os.access(here.path(path), os.W_OK):
        yield warning("compilation_cache", f"{name}={path}: cannot be written, so nothing is kept", f"mkdir -p {path} && chmod u+w {path}")
    else:
        yield ok("compilation_cache", f"compiled graphs are kept in {path}")


def read(file: Path) -> str:
    """Empty for what is not there."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
