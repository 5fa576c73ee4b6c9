"""torchax 0.0.13: PyTorch on JAX. Reported, never written: its eager `backward()` does not go through `nn.Linear`.

Run in November 2026 on a CPU, with torch 2.9.0 beside jax 0.7.1 and torch 2.12.0 beside jax 0.10.2; 0.0.13 does not import beside torch 2.13.
"""

from __future__ import annotations

from xlaport.targets.base import Target

RUN = "torchax 0.0.13, run on a CPU beside torch 2.9.0 and 2.12.0, November 2026"

TORCHAX = Target(
    name="torchax",
    title="torchax",
    versions="0.0.13",
    device_type="jax",
    package="torchax",
    dist_backend="",
    spell={"device": 'torch.device("jax")', "place": '"jax"', "lazy_device": 'torch.device("jax")', "device_type": "jax", "runtime": "JAX"},
    imports={"torch": "import torch", "torchax": "import torchax"},
    requirements=("torch>=2.9,<=2.12", "torchax==0.0.13", "jax", "optax"),
    python="3.11",
    torch=("2.9", "2.12"),
    distributed="keep",
    only_reports=(
        "nothing is rewritten for torchax: F.linear, slices, max_pool2d, einsum and pad lose the gradient there, so loss.backward() raises in an ordinary "
        "training loop (measured); the loop becomes a pure function of the parameters (torchax.train.make_train_step with optax), which is another program"
    ),
    stated={name: RUN for name in ("device_type", "spell", "imports", "requirements", "python", "torch", "distributed", "only_reports")},
)
