"""Batch normalisation over all replicas, which torch has for GPUs only: the same sums, through collectives autograd knows."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from xlaport.runtime.carry.carrier import Carrier


def install(carrier: Carrier) -> None:
    def forward(self: nn.SyncBatchNorm, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if self.training and dist.is_initialized() and dist.get_world_size(self.process_group) > 1:
            carrier.note("SyncBatchNorm")
            return over_replicas(self, input)
        return nn.modules.batchnorm._BatchNorm.forward(self, input)

    nn.SyncBatchNorm.forward = forward
    DistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None  # it refuses all but GPUs


def over_replicas(layer: nn.SyncBatchNorm, input: Tensor) -> Tensor:
    """Shape and dtype of `input` (N, C, ...). Means and squares are summed in float32, as NCCL's version does."""
    from torch.distributed.nn.functional import all_reduce

    axes = [0, *range(2, input.dim())]
    values = input.float()
    count = values.new_full((1,), float(values.numel() // values.shape[1]))
    summed = all_reduce(torch.cat([values.sum(axes), count]), group=layer.process_group or dist.group.WORLD)
    count, mean = summed[-1:].detach(), summed[:-1] / summed[-1:].detach()
    shape = [1, -1, *[1] * (input.dim() - 2)]
    centred = values - mean.view(shape)
    variance = all_reduce(centred.pow(2).sum(axes), group=layer.process_group or dist.group.WORLD) / count
    remember(layer, mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
    normal = (centred * torch.rsqrt(variance + layer.eps).view(shape)).to(input.dtype)
    return normal if layer.weight is None else normal * layer.weight.view(shape) + layer.bias.view(shape)


def remember(layer: nn.SyncBatchNorm, mean: Tensor, variance: Tensor) -> None:
    if not layer.track_running_stats:
        return
    layer.num_batches_tracked.add_(1)
    share = layer.momentum if layer.momentum is not None else 1.0 / layer.num_batches_tracked.item()
    layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), share)
    layer.running_var.lerp_(variance.to(layer.running_var.dtype), share)
