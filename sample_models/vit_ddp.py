"""
A small vision transformer, a process for each GPU.

    torchrun --standalone --nproc_per_node=4 vit_ddp.py --steps 20
    python vit_ddp.py --spawn                       # starts the processes itself
"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CLASSES = 10


class Encoder(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):

    def __init__(self, dim=32, heads=4, layers=2, patch=4, size=16):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.layers = nn.Sequential(*[Encoder(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


def pictures(count, seed):
    """A bright square, whose place is the class."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, CLASSES, (count,), generator=generator)
    images = 0.5 * torch.randn(count, 3, 16, 16, generator=generator)
    for image, place in zip(images, classes.tolist()):
        image[:, place:place + 4, place:place + 4] += 1.0
    return TensorDataset(images, classes)


def evaluate(model, loader, device):
    model.eval()
    right = torch.zeros(1, device=device)
    with torch.no_grad():
        for images, classes in loader:
            images, classes = images.to(device), classes.to(device)
            right += (model(images).argmax(1) == classes).sum()
    dist.all_reduce(right)
    model.train()
    return right


def main(local_rank, args):
    if args.spawn:
        dist.init_process_group('nccl', init_method=args.dist_url, rank=local_rank, world_size=args.gpus)
    else:
        dist.init_process_group('nccl')
    torch.cuda.set_device(local_rank)
    torch.backends.cudnn.benchmark = True

    torch.manual_seed(0)
    model = ViT().cuda(local_rank)
    model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)

    train, test = pictures(256, seed=1), pictures(64, seed=2)
    sampler = DistributedSampler(train, shuffle=True)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler, pin_memory=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=args.batch_size, sampler=DistributedSampler(test, shuffle=False))

    step, epoch = 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for images, classes in loader:
            images = images.cuda(local_rank, non_blocking=True)
            classes = classes.cuda(local_rank, non_blocking=True)
            loss = F.cross_entropy(model(images), classes)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item()}")
            step += 1
            if step == args.steps:
                break
        epoch += 1

    right = evaluate(model, test_loader, torch.device('cuda', local_rank))
    if dist.get_rank() == 0:
        print(f"accuracy {right.item() / len(test):.3f}")
        torch.save(model.module.state_dict(), args.out)
    dist.destroy_process_group()


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--batch-size', type=int, default=32, help='of each GPU')
    parser.add_argument('--spawn', action='store_true')
    parser.add_argument('--gpus', type=int, default=torch.cuda.device_count())
    parser.add_argument('--dist-url', default='tcp://127.0.0.1:23456')
    parser.add_argument('--out', default='vit_ddp.pt')
    args = parser.parse_args()
    if args.spawn:
        mp.spawn(main, nprocs=args.gpus, args=(args,))
    else:
        main(int(os.environ['LOCAL_RANK']), args)
