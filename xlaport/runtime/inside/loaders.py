"""Data loaders of two runs that are compared: the same samples in the same order, and random numbers drawn in that order."""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, RandomSampler

from xlaport.runtime.inside import imports


def without_workers() -> None:
    """Workers draw random numbers in processes of their own, and outlive a program that is stopped."""
    made = DataLoader.__init__
    position = 5  # of num_workers, after self and dataset, batch_size, shuffle, sampler, batch_sampler
    refused = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")

    def init(self, *arguments, **keywords):
        if len(arguments) > position:
            arguments = (*arguments[:position], 0, *arguments[position + 1 :])
        else:
            keywords["num_workers"] = 0
        for name in refused:
            keywords.pop(name, None)
        made(self, *arguments, **keywords)

    DataLoader.__init__ = init


# -- loaders of torch_xla


def in_turn() -> None:
    """Loaders of torch_xla read a batch when they are asked for it, once they are imported."""
    imports.after("torch_xla.distributed.parallel_loader", read_in_turn)


def read_in_turn() -> None:
    """Their threads read ahead: augmentation would draw from the host's generator in between what the model draws there."""
    loaders = sys.modules["torch_xla.distributed.parallel_loader"]

    class ParallelLoader(loaders.ParallelLoader):
        def __init__(self, cpu_loader, devices, *arguments, **keywords):
            super().__init__(cpu_loader, devices, *arguments, **keywords)
            self.read = iter(cpu_loader)
            self.waiting = {device: collections.deque() for device in self._devices}

        def _loader_worker(self):
            """Its thread has nothing to do."""

        def _worker(self, dqueue, host_to_device_transfer_threads):
            """Nor have those that move batches."""

        def next_item(self, device):
            if not self.waiting[device] and not self.read_on():
                return None
            return self.waiting[device].popleft()

        def read_on(self) -> bool:
            """One batch for each device; False where there is not one for each left."""
            batches = list(itertools.islice(self.read, len(self._devices)))
            if len(batches) < len(self._devices):
                return False
            with torch.no_grad():
                for device, batch in zip(self._devices, batches):
                    self.waiting[device].extend(self.send_cpu_data_to_device([batch], device))
            return True

    loaders.ParallelLoader = ParallelLoader


# -- Accelerate


def shuffled_as_on_xla(said: Callable[[str], None]) -> None:
    """Accelerate shuffles in the order it has on XLA, where CUDA is carried elsewhere; `said` is told when it does so.

    On XLA it gives a RandomSampler and its loader a generator of their own, seeded with a number from the host's
    (`prepare_data_loader`, Accelerate 1.15); on CUDA both draw from the host's.
    """
    imports.after("accelerate.data_loader", lambda: own_generators(said))


def own_generators(said: Callable[[str], None]) -> None:
    module = sys.modules["accelerate.data_loader"]
    prepare = module.prepare_data_loader

    def prepared(dataloader, *arguments, **keywords):
        if isinstance(dataloader.sampler, RandomSampler):
            said("the order of samples, as Accelerate draws it on XLA")
            generator = torch.Generator()
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
            dataloader.generator = dataloader.sampler.generator = generator
        return prepare(dataloader, *arguments, **keywords)

    module.prepare_data_loader = prepared
