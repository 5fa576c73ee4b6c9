"""Calls of our own: what PyTorch's test tables leave out, and the spellings training code uses.

`API: expressions`. Names at hand: `torch`, `nn`, `F` (torch.nn.functional), `U` (torch.nn.utils), `D`
(torch.distributions), `rnn` (torch.nn.utils.rnn); `x`, a 4 by 4 float tensor in (0.1, 0.9) that requires a gradient;
`y`, the same without one; `n`, the integers of 4 * y; `mask` = y > 0.5; `index`, two integers; `device`; and the
helpers of `NAMES`. An expression's value is compared with the CPU's, and differentiated when it can be.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn

from .probe import Call, Job

TENSOR = {
    "torch.Tensor.__getitem__": (
        "x[0]", "x[:, 1:3]", "x[..., None]", "x[index]", "x[index, index]", "x[[True, False, True, False]]", "x[mask]",
        "x[n.argmax() % 4]",
    ),
    "torch.Tensor.__setitem__": (
        "assign(x + 0, 0, 1.0)", "assign(x + 0, slice(0, 2), y[2:])", "assign(x + 0, index, y[:2])", "assign(x + 0, mask, 0.0)",
        "assign(x + 0, mask, y[mask])",
    ),
    "torch.Tensor.__iter__": ("[row * 2 for row in x]",),
    "torch.Tensor.__len__": ("len(x)",),
    "torch.Tensor.__bool__": ("bool(x.sum() > 1)",),
    "torch.Tensor.__float__": ("float(x.sum())",),
    "torch.Tensor.__int__": ("int(n.sum())",),
    "torch.Tensor.__contains__": ("2 in n",),
    "torch.Tensor.__format__": ("f'{y.sum():.1f}'",),
    "torch.Tensor.__repr__": ("len(repr(y))",),
    "torch.Tensor.item": ("y.sum().item()", "n[0, 0].item()"),
    "torch.Tensor.tolist": ("y.tolist()", "n.tolist()"),
    "torch.Tensor.numpy": ("y.numpy().shape",),
    "torch.Tensor.__array__": ("y.__array__().shape",),
    "torch.Tensor.cpu": ("x.cpu()",),
    "torch.Tensor.cuda": ("x.cuda()",),
    "torch.Tensor.to": (
        "x.to(device)", "x.to(torch.bfloat16)", "x.to(torch.int64)", "x.to(device, torch.float16)", "x.to(x)", "x.to('cpu')",
        "x.to(device, non_blocking=True)", "x.to(memory_format=torch.preserve_format)",
    ),
    "torch.Tensor.type": ("x.type(torch.bfloat16)", "x.type()"),
    "torch.Tensor.type_as": ("x.type_as(n)", "n.type_as(y)"),
    "torch.Tensor.new_tensor": ("y.new_tensor([1.0, 2.0])",),
    "torch.Tensor.new": ("y.new(2, 3).shape",),
    "torch.Tensor.backward": ("backward_of(x.square().sum())",),
    "torch.Tensor.detach": ("x.detach()",),
    "torch.Tensor.detach_": ("(x * 2).detach_()",),
    "torch.Tensor.requires_grad_": ("y.requires_grad_()",),
    "torch.Tensor.retain_grad": ("backward_of(retained(x * 2).sum())",),
    "torch.Tensor.register_hook": ("hooked(x * 2).sum()",),
    "torch.Tensor.copy_": ("(x + 0).copy_(y)", "(x + 0).copy_(y[0])", "(y + 0).copy_(n)", "(y + 0).copy_(torch.ones(4, 4))"),
    "torch.Tensor.set_": ("(y + 0).set_(n * 1.0)",),
    "torch.Tensor.fill_diagonal_": ("(x + 0).fill_diagonal_(1.0)",),
    "torch.Tensor.random_": ("(y + 0).random_()", "(y + 0).random_(5)", "(y + 0).random_(1, 5)", "(n + 0).random_(5)"),
    "torch.Tensor.bernoulli_": ("(y + 0).bernoulli_()", "(y + 0).bernoulli_(0.3)", "(y + 0).bernoulli_(y)"),
    "torch.Tensor.normal_": ("(y + 0).normal_()", "(y + 0).normal_(1.0, 2.0)"),
    "torch.Tensor.uniform_": ("(y + 0).uniform_()", "(y + 0).uniform_(-1.0, 1.0)"),
    "torch.Tensor.apply_": ("(y + 0).apply_(lambda v: v + 1)",),
    "torch.Tensor.map_": ("(y + 0).map_(y, lambda a, b: a + b)",),
    "torch.Tensor.view": ("x.view(2, 8)", "y.view(dtype=torch.int32)"),
    "torch.Tensor.sum": ("x.sum()", "x.sum(dim=())"),
    "torch.Tensor.mean": ("x.mean()", "x.mean(dim=())"),
    "torch.Tensor.size": ("x.size()", "x.size(0)"),
    "torch.Tensor.dim": ("x.dim()",),
    "torch.Tensor.ndimension": ("x.ndimension()",),
    "torch.Tensor.numel": ("x.numel()",),
    "torch.Tensor.nelement": ("x.nelement()",),
    "torch.Tensor.stride": ("x.stride()",),
    "torch.Tensor.storage_offset": ("x.storage_offset()",),
    "torch.Tensor.element_size": ("x.element_size()",),
    "torch.Tensor.data_ptr": ("x.data_ptr() is None",),
    "torch.Tensor.is_contiguous": ("x.is_contiguous()",),
    "torch.Tensor.is_floating_point": ("x.is_floating_point()",),
    "torch.Tensor.is_complex": ("x.is_complex()",),
    "torch.Tensor.is_signed": ("x.is_signed()",),
    "torch.Tensor.is_same_size": ("x.is_same_size(y)",),
    "torch.Tensor.is_nonzero": ("y.sum().is_nonzero()",),
    "torch.Tensor.is_pinned": ("y.is_pinned()",),
    "torch.Tensor.get_device": ("y.get_device() is None",),
    "torch.Tensor.pin_memory": ("torch.ones(2).pin_memory()",),
    "torch.Tensor.share_memory_": ("y.share_memory_()",),
    "torch.Tensor.storage": ("len(y.storage()) > 0",),
    "torch.Tensor.untyped_storage": ("len(y.untyped_storage()) > 0",),
    "torch.Tensor.to_dense": ("y.to_dense()",),
    "torch.Tensor.dequantize": ("y.dequantize()",),
    "torch.Tensor.record_stream": ("y.record_stream(None)",),
    "torch.Tensor.unsafe_split_with_sizes": ("x.unsafe_split_with_sizes([1, 3])",),
    "torch.Tensor.slogdet": ("spd(x).slogdet()",),
    "torch.Tensor.unique": ("n.unique()", "n.unique(return_inverse=True)"),
    "torch.Tensor.repeat_interleave": (
        "x.repeat_interleave(2, 0)", "x.repeat_interleave(index + 1, 0)" , "x[:2].repeat_interleave(index, 0, output_size=1)",
    ),
    "torch.Tensor.masked_fill_": ("(x + 0).masked_fill_(mask, 0.0)",),
    "torch.Tensor.data": ("x.data * 2",),
    "torch.Tensor.grad": ("backward_of(x.sum())",),
}  # fmt: skip

FUNCTIONS = {
    "torch.where": ("torch.where(mask, x, y)", "torch.where(mask)"),
    "torch.complex": ("torch.complex(x, x)",),
    "torch.abs": ("torch.abs(torch.complex(x, x))",),
    "torch.mul": ("torch.complex(x, x) * torch.complex(x, x)",),
    "torch.nn.functional.pixel_shuffle": ("F.pixel_shuffle(x.expand(4, 4, 4), 2)",),
    "torch.nn.functional.adaptive_avg_pool2d": ("F.adaptive_avg_pool2d(x[None, None], output_size=1)",),
    "torch.nn.functional.embedding": ("F.embedding(n, y + 0, max_norm=1.0)",),
    "torch.nn.functional.interpolate": ("F.interpolate(x[None, None], scale_factor=0.5, mode='bilinear', antialias=True)",),
    "torch.nn.functional.max_pool2d": ("F.max_pool2d(x[None, None], 2, dilation=2)",),
    "torch.sum": ("torch.sum(x)", "torch.sum(x, dim=())"),
    "torch.mean": ("torch.mean(x)", "torch.mean(x, dim=())"),
    "torch.std": ("torch.std(x)", "torch.std(x, dim=())"),
    "torch.tensor": ("torch.tensor([1.0, 2.0], device=device)", "torch.tensor(3, device=device)"),
    "torch.as_tensor": ("torch.as_tensor([1.0, 2.0], device=device)", "torch.as_tensor(y)"),
    "torch.asarray": ("torch.asarray([1.0, 2.0], device=device)",),
    "torch.from_numpy": ("torch.from_numpy(torch.ones(2).numpy()).to(device)",),
    "torch.rand": ("torch.rand(3, device=device)", "torch.rand(2, 3, device=device, dtype=torch.bfloat16)"),
    "torch.randperm": ("torch.randperm(5, device=device)",),
    "torch.normal": ("torch.normal(0.0, 1.0, (3,), device=device)", "torch.normal(y, y)"),
    "torch.poisson": ("torch.poisson(y * 4)",),
    "torch.binomial": ("torch.binomial(torch.full_like(y, 5), y)",),
    "torch.multinomial": (
        "torch.multinomial(y, 1)", "torch.multinomial(y, 2, replacement=True)", "torch.multinomial(y, 2)",
    ),
    "torch.range": ("torch.range(0, 4, device=device)",),
    "torch.vander": ("torch.vander(x[0])",),
    "torch.slogdet": ("torch.slogdet(spd(x))",),
    "torch.chain_matmul": ("torch.chain_matmul(x, x, x)",),
    "torch.is_nonzero": ("torch.is_nonzero(y.sum())",),
    "torch.is_tensor": ("torch.is_tensor(x)",),
    "torch.is_floating_point": ("torch.is_floating_point(x)",),
    "torch.is_complex": ("torch.is_complex(x)",),
    "torch.is_same_size": ("torch.is_same_size(x, y)",),
    "torch.numel": ("torch.numel(x)",),
    "torch.result_type": ("torch.result_type(x, n)",),
    "torch.save": ("saved(y) > 0",),
    "torch.load": ("loaded(map_location=device)", "loaded(map_location='cpu').to(device)"),
    "torch.detach": ("torch.detach(x)",),
    "torch.hann_window": ("torch.hann_window(4, device=device)",),
    "torch.hamming_window": ("torch.hamming_window(4, device=device)",),
    "torch.bartlett_window": ("torch.bartlett_window(4, device=device)",),
    "torch.blackman_window": ("torch.blackman_window(4, device=device)",),
    "torch.kaiser_window": ("torch.kaiser_window(4, device=device)",),
    "torch.fft.fftfreq": ("torch.fft.fftfreq(4, device=device)",),
    "torch.fft.rfftfreq": ("torch.fft.rfftfreq(4, device=device)",),
    "torch.special.gammainc": ("torch.special.gammainc(y, x)",),
    "torch.special.gammaincc": ("torch.special.gammaincc(y, x)",),
    "torch.lobpcg": ("torch.lobpcg(spd(torch.eye(9, device=device)), 1)[0]",),
    "torch.norm_except_dim": ("torch.norm_except_dim(x)",),
    "torch.quantize_per_tensor": ("torch.quantize_per_tensor(y, 0.1, 0, torch.qint8)",),
    "torch.fake_quantize_per_tensor_affine": ("torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)",),
    "torch.fake_quantize_per_channel_affine": (
        "torch.fake_quantize_per_channel_affine(x, y[0], torch.zeros(4, dtype=torch.int32, device=device), 0, -128, 127)",
    ),
    "torch.sparse_coo_tensor": ("torch.sparse_coo_tensor(torch.stack([index, index]), y[0, :2], (4, 4))",),
    "torch.sparse_csr_tensor": ("torch.sparse_csr_tensor(torch.arange(3, device=device), index, y[0, :2], (2, 4))",),
    "torch.empty": ("torch.empty(2, device=device).shape",),
    "torch.compile": ("torch.compile(lambda t: t * 2, backend='openxla')(y)",),
    "torch.cond": ("torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,))",),
    "torch.autocast": (
        "autocast(device, torch.bfloat16, lambda: x @ x)", "autocast(device, torch.bfloat16, lambda: F.layer_norm(x, (4,)))",
        "autocast(device, torch.bfloat16, lambda: F.conv2d(x[None, None], x[None, None, :2, :2]))",
    ),
    "torch.vmap": ("torch.vmap(torch.sum)(x)",),
    "torch.func.vmap": ("torch.func.vmap(torch.sum)(x)",),
    "torch.func.grad": ("torch.func.grad(lambda t: t.sin().sum())(y)",),
    "torch.func.grad_and_value": ("torch.func.grad_and_value(lambda t: t.sin().sum())(y)",),
    "torch.func.vjp": ("torch.func.vjp(torch.sin, y)[0]",),
    "torch.func.jvp": ("torch.func.jvp(torch.sin, (y,), (y,))",),
    "torch.func.jacrev": ("torch.func.jacrev(torch.sin)(y[0])",),
    "torch.func.jacfwd": ("torch.func.jacfwd(torch.sin)(y[0])",),
    "torch.func.hessian": ("torch.func.hessian(lambda t: t.sin().sum())(y[0])",),
    "torch.func.functional_call": ("torch.func.functional_call(nn.Linear(4, 4, bias=False), {'weight': x}, (y,))",),
    "torch.func.stack_module_state": ("torch.func.stack_module_state([on(nn.Linear(4, 4)), on(nn.Linear(4, 4))])[0]",),
    "torch.autograd.grad": (
        "torch.autograd.grad(x.square().sum(), x)", "torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)[0].norm()",
    ),
    "torch.autograd.backward": ("torch.autograd.backward(x.square().sum())",),
    "torch.autograd.functional.jacobian": ("torch.autograd.functional.jacobian(torch.sin, y[0])",),
    "torch.autograd.functional.hessian": ("torch.autograd.functional.hessian(lambda t: t.sin().sum(), y[0])",),
    "torch.autograd.functional.vjp": ("torch.autograd.functional.vjp(torch.sin, y, y)",),
    "torch.autograd.functional.jvp": ("torch.autograd.functional.jvp(torch.sin, y, y)",),
    "torch.autograd.functional.hvp": ("torch.autograd.functional.hvp(lambda t: t.sin().sum(), y, y)",),
    "torch.autograd.functional.vhp": ("torch.autograd.functional.vhp(lambda t: t.sin().sum(), y, y)",),
    "torch.autograd.Variable": ("torch.autograd.Variable(x) * 2",),
    "torch.autograd.detect_anomaly": ("within(torch.autograd.detect_anomaly(), lambda: x.square().sum())",),
    "torch.utils.checkpoint.checkpoint": (
        "torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)",
        "torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True)",
    ),
    "torch.utils.checkpoint.checkpoint_sequential": (
        "torch.utils.checkpoint.checkpoint_sequential(on(nn.Sequential(nn.Tanh(), nn.Tanh())), 2, x, use_reentrant=False)",
    ),
    "torch.nn.functional.affine_grid": ("F.affine_grid(x[None, :2, :3], [1, 1, 4, 4])",),
    "torch.nn.functional.fold": ("F.fold(x[None].repeat(1, 1, 4)[:, :, :9], (4, 4), 2)",),
    "torch.nn.functional.gumbel_softmax": ("F.gumbel_softmax(x)", "F.gumbel_softmax(x, hard=True)"),
    "torch.nn.functional.dropout1d": ("F.dropout1d(x[None])",),
    "torch.nn.functional.lp_pool1d": ("F.lp_pool1d(x[None], 2, 2)",),
    "torch.nn.functional.lp_pool2d": ("F.lp_pool2d(x[None, None], 2, 2)",),
    "torch.nn.functional.lp_pool3d": ("F.lp_pool3d(x[None, None, None].expand(1, 1, 4, 4, 4), 2, 2)",),
    "torch.nn.functional.upsample": ("F.upsample(x[None, None], scale_factor=2)",),
    "torch.nn.functional.conv_tbc": ("F.conv_tbc(x[:, None], x[None, :, :], x[0])",),
    "torch.conv_tbc": ("torch.conv_tbc(x[:, None], x[None, :, :], x[0])",),
}  # fmt: skip

MODULES = {
    "torch.nn.Dropout": ("on(nn.Dropout())(x)",),
    "torch.nn.Dropout1d": ("on(nn.Dropout1d())(x[None])",),
    "torch.nn.Dropout2d": ("on(nn.Dropout2d())(x[None, None])",),
    "torch.nn.Dropout3d": ("on(nn.Dropout3d())(x[None, None, None])",),
    "torch.nn.AlphaDropout": ("on(nn.AlphaDropout())(x)",),
    "torch.nn.FeatureAlphaDropout": ("on(nn.FeatureAlphaDropout())(x[None])",),
    "torch.nn.Flatten": ("on(nn.Flatten())(x[None])",),
    "torch.nn.Unflatten": ("on(nn.Unflatten(1, (2, 2)))(x)",),
    "torch.nn.Identity": ("on(nn.Identity())(x)",),
    "torch.nn.Sequential": ("on(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))(x)",),
    "torch.nn.ModuleList": ("on(nn.ModuleList([nn.Linear(4, 4)]))[0](x)",),
    "torch.nn.ModuleDict": ("on(nn.ModuleDict({'a': nn.Linear(4, 4)}))['a'](x)",),
    "torch.nn.ParameterList": ("on(nn.ParameterList([torch.ones(4)]))[0] * x",),
    "torch.nn.ParameterDict": ("on(nn.ParameterDict({'a': torch.ones(4)}))['a'] * x",),
    "torch.nn.Parameter": ("nn.Parameter(y) * 2",),
    "torch.nn.Module": ("on(nn.Linear(4, 4)).float().train().state_dict()['weight'] * 1",),
    "torch.nn.AdaptiveLogSoftmaxWithLoss": ("on(nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2]))(x, n[0])[1]",),
    "torch.nn.ChannelShuffle": ("on(nn.ChannelShuffle(2))(x[None, :, :, None])",),
    "torch.nn.PixelShuffle": ("on(nn.PixelShuffle(2))(x[None].expand(1, 4, 4, 4))",),
    "torch.nn.PixelUnshuffle": ("on(nn.PixelUnshuffle(2))(x[None, None])",),
    "torch.nn.CosineSimilarity": ("on(nn.CosineSimilarity())(x, y)",),
    "torch.nn.PairwiseDistance": ("on(nn.PairwiseDistance())(x, y + 1)",),
    "torch.nn.CrossMapLRN2d": ("on(nn.CrossMapLRN2d(2))(x[None, None])",),
    "torch.nn.EmbeddingBag": (
        "on(nn.EmbeddingBag(5, 3))(n)", "on(nn.EmbeddingBag(5, 3, mode='sum'))(n)", "on(nn.EmbeddingBag(5, 3))(n[0], index)",
    ),
    "torch.nn.Embedding": ("on(nn.Embedding(5, 3, sparse=True))(n)", "on(nn.Embedding(5, 3, max_norm=1.0))(n)"),
    "torch.nn.Fold": ("on(nn.Fold((4, 4), 2))(x[None].repeat(1, 1, 4)[:, :, :9])",),
    "torch.nn.Unfold": ("on(nn.Unfold(2))(x[None, None])",),
    "torch.nn.Hardsigmoid": ("on(nn.Hardsigmoid())(x)",),
    "torch.nn.RReLU": ("on(nn.RReLU())(x)",),
    "torch.nn.LazyLinear": ("on(nn.LazyLinear(3))(x)",),
    "torch.nn.LazyBatchNorm1d": ("on(nn.LazyBatchNorm1d())(x)",),
    "torch.nn.LazyBatchNorm2d": ("on(nn.LazyBatchNorm2d())(x[None])" , "on(nn.LazyBatchNorm2d())(x[None, None])"),
    "torch.nn.LazyBatchNorm3d": ("on(nn.LazyBatchNorm3d())(x[None, None, None])",),
    "torch.nn.LazyInstanceNorm1d": ("on(nn.LazyInstanceNorm1d())(x[None])",),
    "torch.nn.LazyInstanceNorm2d": ("on(nn.LazyInstanceNorm2d())(x[None, None])",),
    "torch.nn.LazyInstanceNorm3d": ("on(nn.LazyInstanceNorm3d())(x[None, None, None])",),
    "torch.nn.SyncBatchNorm": ("on(nn.SyncBatchNorm(4))(x)",),
    "torch.nn.MaxUnpool1d": ("on(nn.MaxUnpool1d(2))(*F.max_pool1d(x[None], 2, return_indices=True))",),
    "torch.nn.MaxUnpool2d": ("on(nn.MaxUnpool2d(2))(*F.max_pool2d(x[None, None], 2, return_indices=True))",),
    "torch.nn.MaxUnpool3d": (
        "on(nn.MaxUnpool3d(2))(*F.max_pool3d(x[None, None, None].expand(1, 1, 4, 4, 4), 2, return_indices=True))",
    ),
    "torch.nn.TransformerDecoder": (
        "on(nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), 2))(x[:, None], y[:, None])",
    ),
    "torch.nn.TripletMarginLoss": ("on(nn.TripletMarginLoss())(x, y + 1, y + 2)",),
    "torch.nn.TripletMarginWithDistanceLoss": ("on(nn.TripletMarginWithDistanceLoss())(x, y + 1, y + 2)",),
    "torch.nn.Upsample": (
        "on(nn.Upsample(scale_factor=2))(x[None, None])", "on(nn.Upsample(scale_factor=2, mode='bilinear'))(x[None, None])",
        "on(nn.Upsample(scale_factor=2, mode='bicubic'))(x[None, None])",
    ),
    "torch.nn.UpsamplingNearest2d": ("on(nn.UpsamplingNearest2d(scale_factor=2))(x[None, None])",),
    "torch.nn.UpsamplingBilinear2d": ("on(nn.UpsamplingBilinear2d(scale_factor=2))(x[None, None])",),
    "torch.nn.DataParallel": ("on(nn.DataParallel(nn.Linear(4, 4)))(x)",),
}  # fmt: skip

UTILITIES = {
    "torch.nn.utils.clip_grad_norm_": (
        "clipped(x, lambda p: U.clip_grad_norm_(p, 1.0))",
        "clipped(x, lambda p: U.clip_grad_norm_(p, 1.0, norm_type=float('inf')))",
        "clipped(x, lambda p: U.clip_grad_norm_(p, 1.0, error_if_nonfinite=True))",
    ),
    "torch.nn.utils.clip_grad_value_": ("clipped(x, lambda p: U.clip_grad_value_(p, 0.5))",),
    "torch.nn.utils.get_total_norm": ("U.get_total_norm([y, y])",),
    "torch.nn.utils.parameters_to_vector": ("U.parameters_to_vector([x, x])",),
    "torch.nn.utils.vector_to_parameters": ("clipped(x, lambda p: U.vector_to_parameters(y.flatten(), p))",),
    "torch.nn.utils.weight_norm": ("U.weight_norm(on(nn.Linear(4, 4)))(x)",),
    "torch.nn.utils.spectral_norm": ("U.spectral_norm(on(nn.Linear(4, 4)))(x)",),
    "torch.nn.utils.parametrizations.weight_norm": ("U.parametrizations.weight_norm(on(nn.Linear(4, 4)))(x)",),
    "torch.nn.utils.parametrizations.spectral_norm": ("U.parametrizations.spectral_norm(on(nn.Linear(4, 4)))(x)",),
    "torch.nn.utils.parametrizations.orthogonal": ("U.parametrizations.orthogonal(on(nn.Linear(4, 4)))(x)",),
    "torch.nn.utils.fusion.fuse_conv_bn_eval": (
        "U.fusion.fuse_conv_bn_eval(on(nn.Conv2d(1, 1, 2)).eval(), on(nn.BatchNorm2d(1)).eval())(x[None, None])",
    ),
    "torch.nn.utils.rnn.pad_sequence": ("rnn.pad_sequence([x[0, :2], x[0, :3]])",),
    "torch.nn.utils.rnn.pack_sequence": ("rnn.pack_sequence([x[0], x[1, :2]]).data",),
    "torch.nn.utils.rnn.pack_padded_sequence": (
        "rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 4, 4, 4])).data",
        "rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 3, 2, 1])).data",
        "rnn.pack_padded_sequence(x[:, :, None], torch.tensor([1, 3, 2, 4]), enforce_sorted=False).data",
    ),
    "torch.nn.utils.rnn.pad_packed_sequence": (
        "rnn.pad_packed_sequence(rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 4, 4, 4])))[0]",
        "rnn.pad_packed_sequence(rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 3, 2, 1])))[0]",
    ),
    "torch.nn.utils.rnn.unpad_sequence": ("rnn.unpad_sequence(x[:, :, None], torch.tensor([4, 3, 2, 1]))",),
    "torch.nn.init.constant_": ("nn.init.constant_(y + 0, 0.5)",),
    "torch.nn.init.dirac_": ("nn.init.dirac_(y[:, :, None] + 0)",),
    "torch.nn.init.eye_": ("nn.init.eye_(y + 0)",),
    "torch.nn.init.kaiming_normal_": ("nn.init.kaiming_normal_(y + 0)",),
    "torch.nn.init.kaiming_uniform_": ("nn.init.kaiming_uniform_(y + 0)",),
    "torch.nn.init.normal_": ("nn.init.normal_(y + 0)",),
    "torch.nn.init.ones_": ("nn.init.ones_(y + 0)",),
    "torch.nn.init.orthogonal_": ("nn.init.orthogonal_(y + 0)",),
    "torch.nn.init.sparse_": ("nn.init.sparse_(y + 0, 0.5)",),
    "torch.nn.init.trunc_normal_": ("nn.init.trunc_normal_(y + 0)",),
    "torch.nn.init.uniform_": ("nn.init.uniform_(y + 0)",),
    "torch.nn.init.xavier_normal_": ("nn.init.xavier_normal_(y + 0)",),
    "torch.nn.init.xavier_uniform_": ("nn.init.xavier_uniform_(y + 0)",),
    "torch.nn.init.zeros_": ("nn.init.zeros_(y + 0)",),
    "torch.amp.GradScaler": ("scaled_step(y, device)",),
    "torch.optim.lr_scheduler.ReduceLROnPlateau": ("plateau().step(y.sum())",),
    "torch.optim.swa_utils.AveragedModel": ("averaged(on(nn.Linear(4, 4)), y)",),
}  # fmt: skip

_NORMAL = "y, y + 1"
_POSITIVE = "y + 1, y + 1"
_DISTRIBUTIONS = {
    "Bernoulli": "y", "Beta": _POSITIVE, "Binomial": "5, y", "Categorical": "logits=y", "Cauchy": _NORMAL, "Chi2": "y + 1",
    "ContinuousBernoulli": "y", "Dirichlet": "y + 1", "Exponential": "y + 1", "FisherSnedecor": _POSITIVE, "Gamma": _POSITIVE,
    "Geometric": "y", "Gumbel": _NORMAL, "HalfCauchy": "y", "HalfNormal": "y", "InverseGamma": _POSITIVE,
    "Kumaraswamy": _POSITIVE, "Laplace": _NORMAL, "LogNormal": _NORMAL, "LogisticNormal": _NORMAL, "Multinomial": "4, y",
    "MultivariateNormal": "y[0], spd(y)",
    "LowRankMultivariateNormal": "y[0], y, y[0] + 1", "NegativeBinomial": "y + 1, y", "Normal": _NORMAL, "OneHotCategorical": "y",
    "OneHotCategoricalStraightThrough": "y", "Pareto": _POSITIVE, "Poisson": "y", "RelaxedBernoulli": "y.mean(), y",
    "RelaxedOneHotCategorical": "y.mean(), y", "StudentT": "y + 1", "Uniform": _NORMAL, "VonMises": _NORMAL, "Weibull": _POSITIVE,
    "LKJCholesky": "3, y[0, 0]", "Wishart": "y[0, 0] + 4, spd(y)",
}  # fmt: skip


def distribution_forms() -> dict[str, tuple[str, ...]]:
    """For each distribution: build, sample and score, with argument validation (the default) and without."""
    forms = {}
    for name, arguments in _DISTRIBUTIONS.items():
        plain, quiet = f"D.{name}({arguments})", f"D.{name}({arguments}, validate_args=False)"
        forms[f"torch.distributions.{name}"] = (f"scored({plain})", f"scored({quiet})")
    normal, other = f"D.Normal({_NORMAL}, validate_args=False)", "D.Normal(y + 1, y, validate_args=False)"
    forms["torch.distributions.kl_divergence"] = (f"D.kl_divergence({normal}, {other})",)
    forms["torch.distributions.Independent"] = (f"scored(D.Independent({normal}, 1, validate_args=False))",)
    forms["torch.distributions.TransformedDistribution"] = (
        f"scored(D.TransformedDistribution({normal}, [D.TanhTransform(cache_size=1)], validate_args=False))",
    )
    forms["torch.distributions.MixtureSameFamily"] = (
        f"scored(D.MixtureSameFamily(D.Categorical(logits=y, validate_args=False), {normal}, validate_args=False))",
    )
    return forms


def _assign(target: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    target[key] = value
    return target


def _backward_of(loss: torch.Tensor) -> None:
    loss.backward()


def _retained(tensor: torch.Tensor) -> torch.Tensor:
    tensor.retain_grad()
    return tensor


def _hooked(tensor: torch.Tensor) -> torch.Tensor:
    tensor.register_hook(lambda gradient: gradient * 2)
    return tensor


def _clipped(tensor: torch.Tensor, change: Callable[[list[torch.Tensor]], Any]) -> list[Any]:
    parameter = nn.Parameter(tensor.detach() + 0)
    parameter.grad = tensor.detach() * 3
    return [change([parameter]), parameter.detach(), parameter.grad]


def _spd(tensor: torch.Tensor) -> torch.Tensor:
    return tensor @ tensor.T + 4 * torch.eye(tensor.shape[0], device=tensor.device)


def _within(context: Any, action: Callable[[], Any]) -> Any:
    with context:
        return action()


def _autocast(device: torch.device, dtype: torch.dtype, action: Callable[[], Any]) -> Any:
    return _within(torch.autocast(device.type, dtype=dtype), action)


def _scored(distribution: Any) -> list[torch.Tensor]:
    sample = distribution.sample()
    return [sample, distribution.log_prob(sample)]


def _scaled_step(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    parameter = nn.Parameter(tensor + 0)
    optimizer, scaler = torch.optim.SGD([parameter], lr=0.1), torch.amp.GradScaler(device.type)
    scaler.scale(parameter.square().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return parameter.detach()


def _saved(tensor: torch.Tensor) -> int:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    return buffer.tell()


def _loaded(map_location: torch.device | str) -> torch.Tensor:
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    buffer.seek(0)
    return torch.load(buffer, map_location=map_location)


def _plateau() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    return torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.ones(2)], lr=0.1))


def _averaged(module: nn.Module, tensor: torch.Tensor) -> torch.Tensor:
    average = torch.optim.swa_utils.AveragedModel(module)
    average.update_parameters(module)
    return average(tensor)


NAMES = {
    "torch": torch, "nn": nn, "F": nn.functional, "U": nn.utils, "D": torch.distributions, "rnn": rnn, "assign": _assign,
    "backward_of": _backward_of, "retained": _retained, "hooked": _hooked, "clipped": _clipped, "spd": _spd, "within": _within,
    "autocast": _autocast, "scored": _scored, "scaled_step": _scaled_step, "averaged": _averaged, "saved": _saved,
    "loaded": _loaded, "plateau": _plateau,
}  # fmt: skip


def _run(expression: str) -> Callable[[Any, torch.device], Any]:
    code = compile(expression, "<form>", "eval")

    def run(x: torch.Tensor, device: torch.device) -> Any:
        y = x.detach()
        given = {
            "x": x, "y": y, "n": (y * 4).long(), "mask": y > 0.5, "index": torch.tensor([0, 1], device=device), "device": device,
            "on": lambda module: module.to(device),
        }  # fmt: skip
        return eval(code, {**NAMES, **given})

    return run


def expression_features(expression: str) -> tuple[str, ...]:
    """The keyword arguments of its calls, and the whole."""
    keywords = [node for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.keyword)]
    return (*(f"{node.arg}={ast.unparse(node.value)}" for node in keywords), expression)


def form_call(api: str, expression: str) -> Call:
    torch.manual_seed(0)
    x = (torch.rand(4, 4) * 0.8 + 0.1).requires_grad_()
    return Call((api,), x, _run(expression), expression, expression_features(expression),
        comparable="bfloat16" not in expression)


def form_jobs() -> list[Job]:
    forms = {**TENSOR, **FUNCTIONS, **MODULES, **UTILITIES, **distribution_forms()}
    return [Job("forms", api, lambda api=api: form_calls(api, forms[api])) for api in forms]


def form_calls(api: str, expressions: tuple[str, ...]) -> list[Call]:
    return [form_call(api, expression) for expression in expressions]
