"""Parts of a layer on different chips, after Megatron-LM (Shoeybi et al., 2019): which dimension of which weight is cut.

A pair of linear layers is cut so that only its end needs a sum over chips: the first by its outputs ("column"), the second
by its inputs ("row"). The compiler finds the collectives; a rule changes where numbers are, never what they are. A fused
projection (`qkv`) that is split after a column cut costs a reshuffle: give each of q, k and v a layer of its own if you can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import nn

from xlaport.errors import UserError
from xlaport.runtime.fsdp.mesh import Mesh

Kind = Literal["column", "row", "whole"]
Rules = Mapping[str, Kind]
"""Regular expressions for the last parts of a module's name, and how its weight is cut. The first that matches counts."""

DEFAULT: Rules = {
    # Llama, Mistral, Qwen, Gemma; BERT and RoBERTa; GPT-2, nanoGPT; T5; timm and torchvision ViT; the reference Llama.
    r"(q_proj|k_proj|v_proj|gate_proj|up_proj)": "column",
    r"(o_proj|down_proj)": "row",
    r"(query|key|value|query_key_value|dense_h_to_4h)": "column",
    r"attention\.output\.dense|dense_4h_to_h|self_attention\.dense": "row",
    r"intermediate\.dense": "column",
    r"output\.dense": "row",
    r"(in_proj|c_attn|c_fc|qkv|fc1|wi|wi_0|wi_1|q|k|v|wq|wk|wv|w1|w3|to_q|to_k|to_v)": "column",
    r"(c_proj|out_proj|fc2|proj|wo|w2|o|to_out\.0)": "row",
    r"linear1|mlp\.0": "column",
    r"linear2|mlp\.[23]": "row",
    r"lm_head|embed_out": "column",
}

KINDS = ("column", "row", "whole")


def model_dims(model: nn.Module, mesh: Mesh, rules: Rules | None) -> dict[str, int]:
    """Of each parameter that is cut over `model`, the dimension. Nothing where the mesh has one chip along it."""
    chosen = DEFAULT if rules is None else rules
    check(model, chosen, by_user=rules is not None)
    if mesh.model == 1:
        return {}
    found = {}
    for layer in cuttable(model):
        kind = kind_of(layer.name, chosen)
        if kind == "column":
            found[layer.weight] = layer.outputs
            if layer.bias:
                found[layer.bias] = 0
        elif kind == "row":
            found[layer.weight] = 1 - layer.outputs
    if not found:
        raise UserError(f"tensor_parallel: no layer has a name that a rule knows, and the mesh has model={mesh.model}; give tensor_parallel={{pattern: \"column\" or \"row\"}}")
    return found


def check(model: nn.Module, rules: Rules, by_user: bool) -> None:
    names = [layer.name for layer in cuttable(model)]
    for pattern, kind in rules.items():
        if kind not in KINDS:
            raise UserError(f"tensor_parallel: {pattern!r} is {kind!r}; it must be one of {', '.join(KINDS)}")
        try:
            matches = re.compile(ending(pattern))
        except re.error as error:
            raise UserError(f"tensor_parallel: {pattern!r} is not a regular expression: {error}") from None
        if by_user and not any(matches.search(name) for name in names):
            raise UserError(f"tensor_parallel: no linear layer has a name that ends with {pattern!r}; there are {examples(names)}")


def kind_of(name: str, rules: Rules) -> Kind | None:
    return next((kind for pattern, kind in rules.items() if re.search(ending(pattern), name)), None)


def ending(pattern: str) -> str:
    """Whole parts of a name, at its end."""
    return rf"(?:^|\.)(?:{pattern})$"


@dataclass(frozen=True)
class Layer:
    """A matrix of weights that multiplies the last dimension: names of the layer and its parameters (`bias` empty without one), and
    the dimension of the weight that counts its outputs."""

    name: str
    weight: str
    bias: str
    outputs: int


def cuttable(model: nn.Module) -> Iterator[Layer]:
    """Linear layers, and the fused one that `nn.MultiheadAttention` keeps as parameters of its own, as `NAME.in_proj`."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) or is_transposed(module):
            yield Layer(name, f"{name}.weight", f"{name}.bias" if getattr(module, "bias", None) is not None else "", 1 if is_transposed(module) else 0)
        elif isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
            yield Layer(f"{name}.in_proj", f"{name}.in_proj_weight", f"{name}.in_proj_bias" if module.in_proj_bias is not None else "", 0)


def is_transposed(module: nn.Module) -> bool:
    """Conv1D of Transformers' GPT-2: a linear layer whose weight is [inputs, outputs]."""
    return type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None and module.weight.dim() == 2


def examples(names: list[str]) -> str:
    shown = names[:3]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "") if shown else "no linear layers"
