"""Batch normalisation that has another form elsewhere.

Over all replicas, which torch has for GPUs only: the same sums, through collectives autograd knows. With fixed statistics
on XLA, whose backward pass of it raises an error (torch_xla 2.9, measured): written out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
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
    if carrier.kind == "xla":
        F.batch_norm = with_fixed_statistics(F.batch_norm)
    DistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None  # it refuses all but GPUs


def with_fixed_statistics(batch_norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`torch.nn.functional.batch_norm` whose gradients pass in evaluation mode, too."""

    def written_out(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        needs_backward = torch.is_grad_enabled() and any(given is not None and given.requires_grad for given in (input, weight, bias))
        if training or running_mean is None or not needs_backward:
            return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        shape = [1, -1, *[1] * (input.dim() - 2)]
        scale = torch.rsqrt(running_var.float() + eps)
        scale = scale if weight is None else weight.float() * scale
        shift = -running_mean.float() * scale
        shift = shift if bias is None else bias.float() + shift
        return (input.float() * scale.view(shape) + shift.view(shape)).to(input.dtype)

    return written_out


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
