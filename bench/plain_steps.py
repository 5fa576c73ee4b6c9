"""A program whose steps are timed: an MLP of 8 residual blocks with AdamW. python bench/plain_steps.py FILE

FILE takes the milliseconds of processor time of a step, the mean of 40 after 10 of warm-up: on a machine that is busy with
other things time on the clock says little.
"""

import sys
import time
from pathlib import Path

import torch
import torch_xla
from torch import nn

STEPS, WARM_UP, WIDTH = 50, 10, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.layers(x)


def main() -> None:
    torch.manual_seed(0)
    device = torch_xla.device()
    model = nn.Sequential(*[Block() for _ in range(8)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(32, WIDTH).to(device)
    started = 0.0
    for step in range(STEPS):
        if step == WARM_UP:
            torch_xla._XLAC._xla_wait_device_ops([])
            started = time.process_time()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    torch_xla._XLAC._xla_wait_device_ops([])
    Path(sys.argv[1]).write_text(str((time.process_time() - started) * 1000 / (STEPS - WARM_UP)), encoding="utf-8")


if __name__ == "__main__":
    main()
