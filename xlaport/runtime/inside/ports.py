"""Runs of one program side by side: each process group listens at a port of its run, whatever port the program names.

`tcp://127.0.0.1:23456` and `MASTER_PORT` of a program would be taken by the run that comes first. Processes of one run
have the same job, so they meet at the same port. Where torchrun is the store, its port is its own.
"""

from __future__ import annotations

import socket
import sys

from xlaport.runtime.inside import imports

RENDEZVOUS = "torch.distributed.rendezvous"
LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})


def install(port: int) -> None:
    imports.after(RENDEZVOUS, lambda: meet_at(port))


def meet_at(port: int) -> None:
    module = sys.modules[RENDEZVOUS]
    create = module._create_c10d_store

    def create_store(hostname, named, *arguments, **keywords):
        moved = is_local(hostname) and not module._torchelastic_use_agent_store()
        return create(hostname, port if moved else named, *arguments, **keywords)

    module._create_c10d_store = create_store


def is_local(hostname: str) -> bool:
    return hostname in LOCAL or hostname == socket.gethostname()
