"""The step of gpt2.py in plain JAX and optax, written as a JAX user would: `python gpt2_jax.py FILE [--autocast]` writes it as StableHLO.

The same sizes, the same state (float32 parameters and two moments), the same products; ids are int32, as JAX has them.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

VOCABULARY, LAYERS, WIDTH, HEADS, LENGTH, BATCH = 50257, 12, 768, 12, 1024, 8
OPTIMIZER = optax.adamw(1e-4, weight_decay=0.01)


def shapes():
    """Parameters by their shapes; the head is the embedding of tokens."""
    norm = {"scale": (WIDTH,), "bias": (WIDTH,)}
    block = {
        "ln_1": norm, "ln_2": norm, "qkv": linear(WIDTH, 3 * WIDTH), "proj": linear(WIDTH, WIDTH), "fc": linear(WIDTH, 4 * WIDTH), "out": linear(4 * WIDTH, WIDTH),
    }
    tree = {"tokens": (VOCABULARY, WIDTH), "positions": (LENGTH, WIDTH), "blocks": [block] * LAYERS, "ln": norm}
    return jax.tree.map(lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32), tree, is_leaf=lambda node: isinstance(node, tuple))


def linear(inputs, outputs):
    return {"kernel": (inputs, outputs), "bias": (outputs,)}


def normed(x, parameters):
    x = x.astype(jnp.float32)
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * parameters["scale"] + parameters["bias"]


def applied(x, parameters, dtype):
    return x.astype(dtype) @ parameters["kernel"].astype(dtype) + parameters["bias"].astype(dtype)


def block(x, parameters, dtype):
    heads = applied(normed(x, parameters["ln_1"]), parameters["qkv"], dtype).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
    attended = jax.nn.dot_product_attention(heads[:, :, 0], heads[:, :, 1], heads[:, :, 2], is_causal=True)
    x = x + applied(attended.reshape(BATCH, LENGTH, WIDTH), parameters["proj"], dtype)
    hidden = jax.nn.gelu(applied(normed(x, parameters["ln_2"]), parameters["fc"], dtype), approximate=True)
    return x + applied(hidden, parameters["out"], dtype)


def loss(parameters, ids, labels, dtype):
    x = parameters["tokens"][ids] + parameters["positions"]
    for each in parameters["blocks"]:
        x = block(x, each, dtype)
    logits = normed(x, parameters["ln"]).astype(dtype) @ parameters["tokens"].T.astype(dtype)
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()


def lowered(dtype):
    def step(parameters, state, ids, labels):
        value, gradients = jax.value_and_grad(loss)(parameters, ids, labels, dtype)
        updates, state = OPTIMIZER.update(gradients, state, parameters)
        return value, optax.apply_updates(parameters, updates), state

    parameters, batch = shapes(), jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    function = jax.jit(step, donate_argnums=(0, 1))
    return function.trace(parameters, jax.eval_shape(OPTIMIZER.init, parameters), batch, batch).lower(lowering_platforms=("tpu",))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--autocast", action="store_true", help="bfloat16 products")
    options = parser.parse_args()
    options.file.write_text(lowered(jnp.bfloat16 if options.autocast else jnp.float32).as_text(debug_info=True), encoding="utf-8")
