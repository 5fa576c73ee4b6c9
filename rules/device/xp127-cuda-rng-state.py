"""State of CUDA's random generator: a byte tensor there, an int on XLA."""

import ast

from xlaport.ruleset.api import Context, Danger

READS = {"torch.cuda.get_rng_state": "xm.get_rng_state()", "torch.cuda.get_rng_state_all": "[xm.get_rng_state()]"}
WRITES = {"torch.cuda.set_rng_state": "xm.set_rng_state({state})", "torch.cuda.set_rng_state_all": "xm.set_rng_state({state}[0])"}
MANUAL = "the state of the XLA generator is an int (xm.get_rng_state, xm.set_rng_state), not a tensor: change what is done with it"


def check(context: Context):
    for name, template in READS.items():
        for node in context.uses(name):
            if isinstance(node, ast.Call) and not isinstance(node.parent, ast.Attribute):
                message = "raises without a GPU; the XLA generator's state is an int, also in checkpoints"
                yield context.finding(node, message, context.replace(node, template))
            else:
                yield context.finding(node, MANUAL)
    for name, template in WRITES.items():
        for node in context.uses(name):
            state = argument(node)
            if state is None or isinstance(state, ast.Call) and isinstance(state.func, ast.Attribute) and not state.func.attr == "get":
                yield context.finding(node, MANUAL, danger=Danger.SILENT)
            else:
                yield context.finding(node, "sets nothing without a GPU", context.replace(node, template, state=state), danger=Danger.SILENT)
    for node in context.uses("torch.cuda.initial_seed"):
        yield context.finding(node, "raises without a GPU: keep the seed that was given to torch_xla.manual_seed")


def argument(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    return node.args[0] if node.args else named.get("new_state", named.get("new_states"))


def check_torchtpu(context: Context):
    """0.2 takes a state and gives none: on torch 2.13 `torch.tpu.get_rng_state` raises for user code."""
    for name in (*READS, "torch.cuda.initial_seed"):
        for node in context.uses(name):
            yield context.finding(node, "raises without a GPU, and TorchTPU has no public way to read its generator on torch 2.13: seed again after a restart")
    for node in context.uses("torch.cuda.set_rng_state"):
        state = argument(node)
        ops = context.replace(node, "torch.tpu.set_rng_state({state})", state=state) if state is not None else None
        yield context.finding(node, "sets nothing without a GPU; the state must be one of a TPU", ops, danger=Danger.SILENT)
    for node in context.uses("torch.cuda.set_rng_state_all"):
        yield context.finding(node, "sets nothing without a GPU: hand torch.tpu.set_rng_state the state of this process", danger=Danger.SILENT)
