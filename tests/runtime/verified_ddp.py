"""A data-parallel CUDA program of the tests of `verify`: one process a GPU, started by the script."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def worker(rank, world):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29571", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).cuda(rank), device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, 8, sampler=sampler):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.cuda(rank)), y.cuda(rank))
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    mp.spawn(worker, args=(world,), nprocs=world)
