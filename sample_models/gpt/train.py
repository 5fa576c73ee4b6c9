"""
Train the GPT of model.py on made-up tokens.

    python train.py --batch-size 16                              # one GPU
    torchrun --standalone --nproc_per_node=4 train.py            # four GPUs of one machine
"""
import argparse
import math
import os
import time
from contextlib import nullcontext

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from data import TokenStream
from model import GPT, GPTConfig

parser = argparse.ArgumentParser()
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--batch-size', type=int, default=8)
parser.add_argument('--grad-accum', type=int, default=2, help='micro batches per step, over all GPUs')
parser.add_argument('--lr', type=float, default=1e-2)
parser.add_argument('--min-lr', type=float, default=1e-3)
parser.add_argument('--warmup', type=int, default=3)
parser.add_argument('--weight-decay', type=float, default=0.1)
parser.add_argument('--grad-clip', type=float, default=1.0)
parser.add_argument('--backend', default='nccl', help='nccl or gloo')
parser.add_argument('--device', default='cuda', help="'cuda', 'cuda:1', 'cpu', ...")
parser.add_argument('--dtype', default='bfloat16', choices=['float32', 'bfloat16', 'float16'])
parser.add_argument('--no-compile', dest='compile', action='store_false')
parser.add_argument('--out-dir', default='out')
args = parser.parse_args()
device = args.device

ddp = int(os.environ.get('RANK', -1)) != -1
if ddp:
    init_process_group(backend=args.backend)
    rank, local_rank = int(os.environ['RANK']), int(os.environ['LOCAL_RANK'])
    world_size = int(os.environ['WORLD_SIZE'])
    device = f'cuda:{local_rank}'
    torch.cuda.set_device(device)
else:
    rank, world_size = 0, 1
master = rank == 0
assert args.grad_accum % world_size == 0
grad_accum = args.grad_accum // world_size

torch.manual_seed(1337 + rank)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = 'cuda' if 'cuda' in device else 'cpu'
dtype = {'float32': torch.float32, 'bfloat16': torch.bfloat16, 'float16': torch.float16}[args.dtype]
ctx = nullcontext() if device_type == 'cpu' else torch.amp.autocast(device_type=device_type, dtype=dtype)

config = GPTConfig()
stream = TokenStream(config.vocab_size, seed=5 + rank)


def get_batch():
    x, y = stream.batch(args.batch_size, config.block_size)
    if device_type == 'cuda':
        # from pinned memory the copies overlap with the forward pass
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)


def learning_rate(step):
    """Linear warm-up, then half a cosine."""
    if step < args.warmup:
        return args.lr * (step + 1) / (args.warmup + 1)
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * progress)) * (args.lr - args.min_lr)


model = GPT(config)
model.to(device)
scaler = torch.cuda.amp.GradScaler(enabled=(args.dtype == 'float16'))
optimizer = model.configure_optimizers(args.weight_decay, args.lr, (0.9, 0.95), device_type)
if args.compile:
    model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[local_rank])
raw_model = model.module if ddp else model

X, Y = get_batch()
t0 = time.time()
for step in range(args.steps):
    lr = learning_rate(step)
    for group in optimizer.param_groups:
        group['lr'] = lr

    for micro_step in range(grad_accum):
        if ddp:
            # gradients travel once a step, with the last micro batch
            model.require_backward_grad_sync = (micro_step == grad_accum - 1)
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / grad_accum
        X, Y = get_batch()  # fetch the next batch while the GPU is busy
        scaler.scale(loss).backward()
    if args.grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)

    if master:
        lossf = loss.item() * grad_accum  # waits for the GPU
        dt, t0 = time.time() - t0, time.time()
        print(f"step {step} loss {lossf}")
        print(f"  lr {lr:.2e}, {dt * 1000:.1f} ms")

if master:
    os.makedirs(args.out_dir, exist_ok=True)
    checkpoint = {'model': raw_model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': args.steps,
                  'args': vars(args)}
    torch.save(checkpoint, os.path.join(args.out_dir, 'ckpt.pt'))
if ddp:
    destroy_process_group()
