"""Recurrent layers on XLA: sequences are packed on the host, and `nn.GRU` is torch's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import rnn

from xlaport.runtime.carry.carrier import Carrier


def install(carrier: Carrier) -> None:
    if carrier.kind != "xla":
        return
    # torch_xla 2.9 puts a class of its own there, which takes no packed sequences and no tensors of the host.
    nn.GRU = getattr(nn.GRU, "_orig", nn.GRU)
    pack = rnn.pack_padded_sequence

    def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
        if input.device.type != "xla":
            return pack(input, lengths, batch_first, enforce_sorted)
        carrier.note("packed sequences")
        on_host = lengths.cpu() if isinstance(lengths, Tensor) else torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
        return pack(input.cpu(), on_host, batch_first, enforce_sorted).to(carrier.device)

    rnn.pack_padded_sequence = pack_padded_sequence
