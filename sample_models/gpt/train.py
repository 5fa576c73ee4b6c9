"""
Train the GPT of model.py, on one GPU or with distributed data parallel.

One GPU:
$ python train.py --batch-size 16

4 GPUs on 1 node:
$ torchrun --standalone --nproc_per_node=4 train.py
"""
import argparse
import math
import os
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from model import GPT, GPTConfig

parser = argparse.ArgumentParser()
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--batch-size', type=int, default=8)
parser.add_argument('--gradient-accumulation-steps', type=int, default=2)
parser.add_argument('--learning-rate', type=float, default=3e-3)
parser.add_argument('--min-lr', type=float, default=3e-4)
parser.add_argument('--warmup-iters', type=int, default=3)
parser.add_argument('--weight-decay', type=float, default=0.1)
parser.add_argument('--grad-clip', type=float, default=1.0)
parser.add_argument('--backend', default='nccl', help="'nccl', 'gloo', etc.")
parser.add_argument('--device', default='cuda', help="examples: 'cpu', 'cuda', 'cuda:0', 'cuda:1' etc.")
parser.add_argument('--dtype', default='bfloat16', choices=['float32', 'bfloat16', 'float16'])
parser.add_argument('--no-compile', dest='compile', action='store_false', help='do not use PyTorch 2.0 to compile')
parser.add_argument('--out-dir', default='out')
args = parser.parse_args()
device = args.device
gradient_accumulation_steps = args.gradient_accumulation_steps

# various inits, derived attributes, I/O setup
ddp = int(os.environ.get('RANK', -1)) != -1  # is this a ddp run?
if ddp:
    init_process_group(backend=args.backend)
    ddp_rank = int(os.environ['RANK'])
    ddp_local_rank = int(os.environ['LOCAL_RANK'])
    ddp_world_size = int(os.environ['WORLD_SIZE'])
    device = f'cuda:{ddp_local_rank}'
    torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    seed_offset = ddp_rank  # each process gets a different seed
    assert gradient_accumulation_steps % ddp_world_size == 0
    gradient_accumulation_steps //= ddp_world_size
else:
    master_process = True
    seed_offset = 0
    ddp_world_size = 1

if master_process:
    os.makedirs(args.out_dir, exist_ok=True)
torch.manual_seed(1337 + seed_offset)
torch.backends.cuda.matmul.allow_tf32 = True  # allow tf32 on matmul
torch.backends.cudnn.allow_tf32 = True  # allow tf32 on cudnn
device_type = 'cuda' if 'cuda' in device else 'cpu'  # for later use in torch.autocast
ptdtype = {'float32': torch.float32, 'bfloat16': torch.bfloat16, 'float16': torch.float16}[args.dtype]
ctx = nullcontext() if device_type == 'cpu' else torch.amp.autocast(device_type=device_type, dtype=ptdtype)

# data: each token is a fixed function of the two before it, with some noise
config = GPTConfig()
rng = np.random.default_rng(5 + seed_offset)
tokens = np.zeros(20000, dtype=np.int64)
for t in range(2, len(tokens)):
    tokens[t] = (3 * tokens[t - 1] + tokens[t - 2] + 1 + rng.integers(0, 3)) % config.vocab_size


def get_batch():
    ix = rng.integers(0, len(tokens) - config.block_size - 1, size=args.batch_size)
    x = torch.stack([torch.from_numpy(tokens[i:i + config.block_size]) for i in ix])
    y = torch.stack([torch.from_numpy(tokens[i + 1:i + 1 + config.block_size]) for i in ix])
    if device_type == 'cuda':
        # pin arrays x,y, which allows us to move them to GPU asynchronously (non_blocking=True)
        x, y = x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    else:
        x, y = x.to(device), y.to(device)
    return x, y


model = GPT(config)
model.to(device)

# initialize a GradScaler. If enabled=False scaler is a no-op
scaler = torch.cuda.amp.GradScaler(enabled=(args.dtype == 'float16'))

optimizer = model.configure_optimizers(args.weight_decay, args.learning_rate, (0.9, 0.95), device_type)

if args.compile:
    print("compiling the model... (takes a ~minute)")
    unoptimized_model = model
    model = torch.compile(model)  # requires PyTorch 2.0

# wrap model into DDP container
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank])


# learning rate decay scheduler (cosine with warmup)
def get_lr(it):
    if it < args.warmup_iters:
        return args.learning_rate * (it + 1) / (args.warmup_iters + 1)
    decay_ratio = (it - args.warmup_iters) / max(1, args.steps - args.warmup_iters)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return args.min_lr + coeff * (args.learning_rate - args.min_lr)


# training loop
X, Y = get_batch()  # fetch the very first batch
t0 = time.time()
raw_model = model.module if ddp else model  # unwrap DDP container if needed
for iter_num in range(args.steps):
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr

    # forward backward update, with optional gradient accumulation to simulate larger batch size
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            # in DDP training we only need to sync gradients at the last micro step.
            model.require_backward_grad_sync = (micro_step == gradient_accumulation_steps - 1)
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps  # scale the loss to account for gradient accumulation
        # immediately async prefetch next batch while model is doing the forward pass on the GPU
        X, Y = get_batch()
        scaler.scale(loss).backward()
    if args.grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
    scaler.step(optimizer)
    scaler.update()
    # flush the gradients as soon as we can, no need for this memory anymore
    optimizer.zero_grad(set_to_none=True)

    # timing and logging
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if master_process:
        # get loss as float. note: this is a CPU-GPU sync point
        lossf = loss.item() * gradient_accumulation_steps
        print(f"iter {iter_num}: time {dt * 1000:.2f}ms, lr {lr:.2e}")
        print(f"step {iter_num} loss {lossf}")

if master_process:
    checkpoint = {
        'model': raw_model.state_dict(),
        'optimizer': optimizer.state_dict(),
        'iter_num': args.steps,
        'config': vars(args),
    }
    torch.save(checkpoint, os.path.join(args.out_dir, 'ckpt.pt'))

if ddp:
    destroy_process_group()
