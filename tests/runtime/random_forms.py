"""Draws random numbers in every form on the CPU and on XLA, both from the host's generator; prints what differs as JSON."""

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributions as D  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from xlaport.runtime import streams  # noqa: E402

streams.install("CPU")

import torch_xla  # noqa: E402

streams.install("XLA")


def forms(device):
    torch.manual_seed(0)
    x = (torch.arange(20.0).reshape(4, 5) / 20 + 0.02).to(device)
    transposed, query = x.t(), torch.ones(2, 2, 4, 8, device=device)
    lstm = nn.LSTM(5, 5, 2, dropout=0.5).to(device)
    attention = nn.MultiheadAttention(8, 2, dropout=0.3).to(device)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.3).to(device)
    return {
        "dropout": lambda: F.dropout(x, 0.5),
        "dropout of a transposed tensor": lambda: F.dropout(transposed, 0.5),
        "dropout in place": lambda: F.dropout(x.clone(), 0.3, inplace=True),
        "dropout of all": lambda: F.dropout(x, 1.0),
        "dropout in bfloat16": lambda: F.dropout(x.bfloat16(), 0.3).float(),
        "dropout2d": lambda: F.dropout2d(torch.ones(2, 3, 4, 4, device=device), 0.5),
        "alpha_dropout": lambda: F.alpha_dropout(x, 0.5, True),
        "feature_alpha_dropout": lambda: F.feature_alpha_dropout(x, 0.5, True),
        "rand": lambda: torch.rand(3, device=device),
        "rand in float64": lambda: torch.rand(2, 3, device=device, dtype=torch.float64).float(),
        "randn": lambda: torch.randn(3, device=device),
        "randn in bfloat16": lambda: torch.randn(4, device=device, dtype=torch.bfloat16).float(),
        "randint": lambda: torch.randint(7, (3,), device=device),
        "randint from": lambda: torch.randint(1, 9, (3,), device=device),
        "randperm": lambda: torch.randperm(5, device=device),
        "rand_like": lambda: torch.rand_like(x),
        "randn_like of a transposed tensor": lambda: torch.randn_like(transposed),
        "randint_like": lambda: torch.randint_like(x, 5),
        "normal_": lambda: x.clone().normal_(),
        "normal_ of rows": lambda: x.clone()[1:3].normal_(),
        "uniform_": lambda: x.clone().uniform_(1, 2),
        "exponential_": lambda: x.clone().exponential_(2),
        "random_": lambda: x.clone().random_(),
        "random_ to": lambda: x.clone().random_(5),
        "random_ from": lambda: x.clone().random_(2, 5),
        "bernoulli_": lambda: x.clone().bernoulli_(0.5),
        "bernoulli_ of a tensor": lambda: x.clone().bernoulli_(x * 0.5),
        "bernoulli": lambda: torch.bernoulli(x * 0.5),
        "bernoulli of a number": lambda: x.bernoulli(0.3),
        "multinomial": lambda: torch.multinomial(x, 2),
        "multinomial of one": lambda: torch.multinomial(x[0], 1),
        "multinomial with replacement": lambda: torch.multinomial(x, 2, True),
        "normal of means": lambda: torch.normal(x, 1.0),
        "normal of deviations": lambda: torch.normal(0.0, x),
        "normal of both": lambda: torch.normal(x, x),
        "normal of numbers": lambda: torch.normal(0.0, 1.0, (3,), device=device),
        "lstm": lambda: lstm(torch.ones(3, 2, 5, device=device))[0],
        "multi-head attention": lambda: attention(*[torch.ones(3, 2, 8, device=device)] * 3)[0],
        "transformer layer": lambda: layer(torch.ones(2, 3, 8, device=device)),
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(query, query, query, dropout_p=0.5),
        "gumbel_softmax": lambda: F.gumbel_softmax(x),
        "rrelu": lambda: F.rrelu(x - 0.5, training=True),
        "cauchy_": lambda: x.clone().cauchy_(),
        "geometric_": lambda: x.clone().geometric_(0.5),
        "log_normal_": lambda: x.clone().log_normal_(),
        "poisson of a transposed tensor": lambda: torch.poisson(transposed),
        "binomial": lambda: torch.binomial((x * 5).floor(), x * 0.5),
        "gamma": lambda: torch._standard_gamma(x),
        "dirichlet": lambda: torch._sample_dirichlet(x),
        "Normal.rsample": lambda: D.Normal(x, x, validate_args=False).rsample(),
        "Categorical": lambda: D.Categorical(x, validate_args=False).sample(),
        "Beta": lambda: D.Beta(x, x, validate_args=False).sample(),
        "trunc_normal_": lambda: nn.init.trunc_normal_(torch.empty(3, 4, device=device)),
        "orthogonal_": lambda: nn.init.orthogonal_(torch.empty(3, 4, device=device)),
        "sparse_": lambda: nn.init.sparse_(torch.empty(6, 4, device=device), 0.5),
        "kaiming_uniform_": lambda: nn.init.kaiming_uniform_(torch.empty(3, 4, device=device)),
    }


def drawn(form):
    """The numbers, and where the host's generator stands after them."""
    torch.manual_seed(1)
    return form().detach().cpu().float(), torch.rand(1)


def difference(a, b):
    if a[0].shape != b[0].shape or not torch.allclose(a[0], b[0], rtol=1e-5, atol=1e-6):
        return "other numbers"
    return None if torch.equal(a[1], b[1]) else "another number of draws"


cpu, xla = forms(torch.device("cpu")), forms(torch_xla.device())
print(json.dumps({name: difference(drawn(cpu[name]), drawn(xla[name])) for name in cpu}))
