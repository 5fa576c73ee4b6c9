"""CUDA programs on a machine without CUDA: what they ask of CUDA is carried to another device.

No file is edited. Device arguments are exchanged where torch's functions are called (`calls`), names of `torch.cuda`
and `torch.accelerator` answer for the other device (`namespace`), mixed precision becomes bfloat16 (`precision`),
process groups become gloo's or XLA's (`distributed`), and what has no form on another device says so (`refused`).
"""

from __future__ import annotations

import os

from xlaport.runtime.carry import batchnorm, calls, distributed, namespace, precision, recurrent, refused
from xlaport.runtime.carry.carrier import Carrier
from xlaport.runtime.inside import imports


def install(device: str, session) -> Carrier:
    """Carry CUDA to `device` ("cpu" or "xla") in this process; what was carried is recorded when it ends.

    For XLA torch_xla must be importable; it is imported here, since the program does not. Parameters keep their
    identity when a module moves, as they do on CUDA. On the CPU torch_xla is hidden: libraries that find it (Accelerate,
    Lightning) would leave CUDA for XLA.
    """
    if device == "cpu":
        imports.hide("torch_xla")
    carrier = Carrier.to(device)
    namespace.install(carrier)
    precision.install(carrier)
    distributed.install(carrier)
    batchnorm.install(carrier)
    recurrent.install(carrier)
    refused.install(carrier)
    calls.install(carrier)
    os.register_at_fork(after_in_child=carrier.counts.clear)  # the parent counts what it did
    session.at_end(lambda: session.record("carried", device=device, counts=dict(carrier.counts)))
    return carrier
