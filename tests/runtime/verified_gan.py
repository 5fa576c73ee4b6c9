"""A data-parallel CUDA program of the tests of `verify` with two optimizers: one launch of the port makes the steps of both."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def worker(rank, world):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29572", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    torch.manual_seed(5)
    critic = DistributedDataParallel(nn.Linear(8, 1).cuda(rank), device_ids=[rank])
    maker = DistributedDataParallel(nn.Linear(4, 8).cuda(rank), device_ids=[rank])
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=1e-2)
    maker_optimizer = torch.optim.SGD(maker.parameters(), lr=1e-2)
    for _ in range(4):
        real, noise = torch.randn(16, 8).cuda(rank), torch.randn(16, 4).cuda(rank)
        critic_optimizer.zero_grad()
        (F.softplus(-critic(real)).mean() + F.softplus(critic(maker(noise).detach())).mean()).backward()
        critic_optimizer.step()
        maker_optimizer.zero_grad()
        F.softplus(-critic(maker(noise))).mean().backward()
        maker_optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = torch.cuda.device_count()
    mp.spawn(worker, args=(world,), nprocs=world)
