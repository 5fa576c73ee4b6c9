"""Data-parallel replicas in one process on XLA:CPU, which take turns.

XLA:CPU has no mode of several processes: under torchrun each process is rank 0 of 1, and collectives silently do nothing.
It does have several devices in one process (`CPU_NUM_DEVICES`), a thread each, but threads that compile one graph at the
same time get collectives with different ids, and the process is aborted after 10 s. So one replica runs at a time, from
one launch to the next: rank 0 compiles, the others take what is in the cache (measured with torch_xla 2.9 and 2 and 4
replicas: the losses of `xm.optimizer_step` are those of one device with the global batch, to 5 digits). As processes do,
each replica has random generators and process groups of its own.

    subprocess.run([sys.executable, "program.py"], env={**os.environ, **replicas.environment(4)})
    # program.py
    losses = replicas.run(train, (args,))               # [what rank 0 returned, rank 1, ...]

Rules for the program: every replica builds the same graphs and launches equally often. A read of what a collective gives is
preceded by a launch here, so every replica must make it, as on a TPU. No backward pass may come before `run` in the process:
autograd counts the devices then, and there is one. Rank as a number in the graph (`ones(1) * rank`) makes
another graph for each replica: put it there as data. Private parts of torch_xla are used: this tests ports, it does not train.
"""

from __future__ import annotations

import copy
import os
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xlaport.errors import UserError

THREADS = "16"
"""Pools sized by two cores starve with four replicas, which wait for each other inside a collective."""

READS = ("item", "tolist", "cpu", "numpy", "to", "__bool__", "__float__", "__int__", "__index__")
"""Methods of a tensor that wait for its value; `to` where it goes to the host."""

COLLECTIVE = re.compile(r"xla::(cross_replica_sum|all_gather|reduce_scatter|all_to_all|collective_permute)\b")
"""In the text of a graph."""

BLOCKING = ("barrier", "all_reduce", "all_gather", "all_gather_object", "gather_object", "broadcast", "broadcast_object_list", "scatter_object_list", "reduce")
"""Functions of torch.distributed in which a rank of a gloo group waits for the others."""


def environment(count: int) -> dict[str, str]:
    """Variables of a process that is to hold `count` replicas. They are read when torch_xla is imported."""
    if count < 1:
        raise UserError(f"{count} replicas: there must be at least one")
    return {
        "PJRT_DEVICE": "CPU",
        "TPU_SKIP_MDS_QUERY": "1",
        "CPU_NUM_DEVICES": str(count),
        # Collectives of one launch are ordered one after the other; asynchronous launches of a real step never end.
        "PJRT_CPU_ASYNC_CLIENT": "0",
        "XLA_THREAD_POOL_SIZE": THREADS,
        "NPROC": THREADS,
    }


def run(worker: Callable[..., Any], args: Sequence[Any] = (), of_rank: Callable[[int, int], dict[str, str]] | None = None) -> list[Any]:
    """Call `worker(rank, *args)` in every replica, and give what each returned, by rank.

    A replica that raises ends the others at their next launch, and its exception is raised here. `of_rank(rank, count)`:
    variables that the environment holds while a replica has the turn.
    """
    global TURNS
    TURNS = turns = Turns(device_count(), of_rank)
    import torch_xla.runtime as xr
    from torch_xla._internal import pjrt

    def replica() -> Any:
        rank = xr.global_ordinal()
        try:
            turns.wait(rank)
            return worker(rank, *args)
        except Ended:
            return None  # another replica has failed, and says why
        except BaseException as error:
            turns.failure = turns.failure or error
            return None
        finally:
            turns.leave(rank)

    with launches(turns), reads(), process_groups(turns):
        results = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess)
    if turns.failure:
        raise turns.failure
    return [results[rank] for rank in sorted(results)]


def rest(rank: int) -> None:
    """A replica makes no more launches; returns when none does, so that what all of them computed can be read."""
    TURNS.leave(rank)
    with TURNS.changed:
        TURNS.changed.wait_for(lambda: not TURNS.running)


TURNS: Turns
"""Those of the replicas that run now, or ran last."""


@contextmanager
def launching(fresh: Callable[[], None] = lambda: None) -> Iterator[None]:
    """`torch_xla.launch` and `xmp.spawn` of a program start its replicas with `run`; one device needs no turns.

    `fresh` sets the random generators as they are in a new process, which a replica would be.
    """
    if device_count() == 1:
        yield
        return
    import torch_xla
    import torch_xla.distributed.xla_multiprocessing as xmp

    before = torch_xla.launch, xmp.spawn

    def launch(fn: Callable[..., Any], args: Sequence[Any] = (), *_: Any, **__: Any) -> None:
        fresh()
        # Arguments reach a process as copies; threads would share what a worker changes in them.
        run(lambda rank, *given: fn(rank, *copy.deepcopy(given)), args)

    torch_xla.launch = xmp.spawn = launch
    try:
        yield
    finally:
        torch_xla.launch, xmp.spawn = before


def device_count() -> int:
    """Replicas this process was started for."""
    count = os.environ.get("CPU_NUM_DEVICES", "1")
    wrong = [name for name, value in environment(int(count)).items() if os.environ.get(name) != value]
    if wrong and count != "1":
        raise UserError(f"replicas need {', '.join(wrong)} in the environment, before torch_xla is imported: see replicas.environment")
    return int(count)


class Ended(Exception):
    """A replica is not to go on, because another has failed."""


class Turns:
    """Which replica runs. Random generators of the host are kept for each, as they are one of the process."""

    def __init__(self, count: int, of_rank: Callable[[int, int], dict[str, str]] | None = None) -> None:
        self.of_rank = of_rank
        self.failure: BaseException | None = None
        self.current = 0
        self.count = count
        self.running = set(range(count))
        self.changed = threading.Condition()
        self.random_states = [random_state()] * count

    def wait(self, rank: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.failure is not None or self.current == rank)
        if self.failure is not None:
            raise Ended
        set_random_state(self.random_states[rank])
        if self.of_rank is not None:
            os.environ.update(self.of_rank(rank, self.count))

    def pass_on(self, rank: int) -> None:
        self.random_states[rank] = random_state()
        self.hand_over(rank)

    def leave(self, rank: int) -> None:
        self.running.discard(rank)
        if self.current == rank or self.failure is not None:
            self.hand_over(rank)

    def hand_over(self, rank: int) -> None:
        following = [(rank + step) % self.count for step in range(1, self.count + 1)]
        with self.changed:
            self.current = next((other for other in following if other in self.running), rank)
            self.changed.notify_all()


def random_state() -> tuple[Any, ...]:
    import numpy as np
    import torch

    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_random_state(state: tuple[Any, ...]) -> None:
    import numpy as np
    import torch

    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])


@contextmanager
def launches(turns: Turns) -> Iterator[None]:
    """The turn ends with each launch of a replica. Launches of the main thread are as before."""
    import torch_xla
    import torch_xla.core.xla_model as xm

    launch, gather = torch_xla._XLAC._xla_step_marker, xm._all_gather_using_all_reduce

    def launch_and_pass_on(*args: Any, **kwargs: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            return launch(*args, **kwargs)
        waits = kwargs.pop("wait", False)
        launch(*args, wait=False, **kwargs)
        own = torch_xla._XLAC._xla_get_default_device_ordinal()
        turns.pass_on(own)
        turns.wait(own)
        if waits:
            xm.wait_device_ops(xm.xla_real_devices([torch_xla.device()]))  # when the others have launched what it waits for; theirs may wait for this replica's next

    torch_xla._XLAC._xla_step_marker = launch_and_pass_on
    xm._all_gather_using_all_reduce = gather_with_rank_as_data
    try:
        yield
    finally:
        torch_xla._XLAC._xla_step_marker = launch
        xm._all_gather_using_all_reduce = gather


@contextmanager
def reads() -> Iterator[None]:
    """A read of what a collective gives follows a launch. It would launch by itself, and wait for replicas that have no turn."""
    import torch
    import torch_xla

    def after_launch(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            waits = tensor.device.type == "xla" and (name != "to" or is_to_host(*args, **kwargs))
            if waits and COLLECTIVE.search(torch_xla._XLAC._get_xla_tensors_text([tensor])):
                torch_xla.sync()
            return read(tensor, *args, **kwargs)

        return call

    def is_to_host(*args: Any, **kwargs: Any) -> bool:
        """By what `Tensor.to` was given: a device, its name or a tensor that is there, among others."""
        return any(str(getattr(value, "device", value)).startswith("cpu") for value in (*args, *kwargs.values()))

    functions = {name: getattr(torch.Tensor, name) for name in READS}
    for name, function in functions.items():
        setattr(torch.Tensor, name, after_launch(name, function))
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(torch.Tensor, name, function)


def gather_with_rank_as_data(value: Any, dim: int = 0, groups: Any = None, pin_layout: bool = True) -> Any:
    """All-gather of XLA:CPU. That of torch_xla pads by the rank, which makes another graph for each replica."""
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    ordinals = list(range(xr.world_size())) if groups is None else next(group for group in groups if xr.global_ordinal() in group)
    own = torch.tensor([ordinal == xr.global_ordinal() for ordinal in ordinals]).to(value.device)
    own = own.view(-1, *[1] * value.dim())
    stacked = xm.all_reduce(xm.REDUCE_SUM, torch.where(own, value.unsqueeze(0), torch.zeros_like(value)), groups=groups, pin_layout=pin_layout)
    return torch.cat(stacked.unbind(0), dim)


@contextmanager
def process_groups(turns: Turns) -> Iterator[None]:
    """Each replica's thread has process groups of its own, as a process would; torch keeps them in one global otherwise.

    Where a rank waits for the others on the host (gloo), they get their turns meanwhile.
    """
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    import torch_xla
    from torch._C._distributed_c10d import _set_thread_isolation_mode
    from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld
    from torch_xla._internal import rendezvous

    def passing_on(function: Callable[..., Any], is_blocking: Callable[..., bool]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is threading.main_thread() or not is_blocking(**kwargs):
                return function(*args, **kwargs)
            own = torch_xla._XLAC._xla_get_default_device_ordinal()
            turns.pass_on(own)
            try:
                return function(*args, **kwargs)
            finally:
                turns.wait(own)

        return call

    def is_gloo(group: Any = None, **_: Any) -> bool:
        return dist.get_backend(group) == "gloo"

    world, store, make_group = c10d._world, rendezvous._store, c10d._new_process_group_helper
    functions = {name: getattr(dist, name) for name in BLOCKING}
    c10d._world = ThreadLocalWorld()
    rendezvous._store = dist.HashStore()  # one client of a TCPStore, shared by threads, waits while holding its lock
    _set_thread_isolation_mode(True)
    c10d._new_process_group_helper = passing_on(make_group, lambda **_: True)
    for name, function in functions.items():
        setattr(dist, name, passing_on(function, is_gloo))
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(dist, name, function)
        c10d._new_process_group_helper = make_group
        _set_thread_isolation_mode(False)
        c10d._world, rendezvous._store = world, store
