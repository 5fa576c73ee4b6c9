"""All checks, in the order they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xlaport.doctor import chips, device, machine, variables, versions
from xlaport.doctor.check import Check, Status, Surroundings

CHECKS: tuple[Callable[[Surroundings], Iterator[Check]], ...] = (
    versions.check_python, versions.check_backend, versions.check_together, versions.check_cuda_wheels,
    variables.check_device_choice, variables.check_variables, variables.check_worker_variables,
    machine.check_memory, machine.check_open_files, machine.check_shared_memory, machine.check_cache,
    chips.check_chips, chips.check_lock, chips.check_metadata,
)


def examine(here: Surroundings, run_device: bool = True) -> Iterator[Check]:
    """One check after the other. The device is left out where an error before says that it cannot work."""
    errors = False
    for check in CHECKS:
        for found in check(here):
            errors = errors or found.status is Status.ERROR
            yield found
    if run_device and not errors:
        yield from device.check_device(here)
