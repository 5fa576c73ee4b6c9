"""What makes two runs of a program comparable: seeds, threads, loaders without workers; and what is put in place when."""

from __future__ import annotations

import random
import sys

import torch

from xlaport.runtime import carry, replicas, streams
from xlaport.runtime.inside import attribution, imports, loaders, ports, tap
from xlaport.runtime.inside.session import Session


def install(session: Session) -> None:
    """Called once in each process, when torch has just been imported."""
    job = session.job
    if job.port is not None:
        ports.install(job.port)
    if job.threads is not None:
        fix_threads(job.threads)
    if job.seed is not None:
        seed(job.seed)
    if job.compared:
        loaders.without_workers()
    if job.graphs is not None:
        imports.after("torch_xla", lambda: keep_graphs(job.graphs))
    if job.replicas > 1:
        imports.after("torch_xla", lambda: session.held.enter_context(replicas.launching(lambda: seed(job.seed or 0))))
    if job.record:
        tap.install(session)
    if not job.autocast:
        no_autocast()
    if job.profile is not None:
        attribution.install(session)
    if job.carry is not None:
        carrier = carry.install(job.carry, session)
        if job.host_random and job.carry == "cpu":
            loaders.shuffled_as_on_xla(carrier.note)
    if job.host_random:
        loaders.in_turn()
        streams.install("CPU")
        imports.after("torch_xla", lambda: streams.install("XLA"))


def fix_threads(count: int) -> None:
    """Also against a program that sets its own: runs with other counts are part of the envelope."""
    torch.set_num_threads(count)
    torch.set_num_threads = lambda asked: None


def keep_graphs(folder: str) -> None:
    import torch_xla.runtime as xr

    xr.initialize_cache(folder)


def seed(value: int) -> None:
    """All generators a program draws from without making one itself. A program that sets its own seeds sets them later.

    XLA's starts from a fixed seed in every process; to set one starts the runtime, after which replicas cannot be launched.
    """
    random.seed(value)
    torch.manual_seed(value)
    imports.after("numpy", lambda: sys.modules["numpy"].random.seed(value))


def no_autocast() -> None:
    made = torch.amp.autocast_mode.autocast.__init__

    def init(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        made(self, device_type, dtype=dtype, enabled=False, cache_enabled=cache_enabled)

    torch.amp.autocast_mode.autocast.__init__ = init
