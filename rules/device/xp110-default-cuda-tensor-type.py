"""`torch.set_default_device("cuda")`, `set_default_tensor_type("torch.cuda.FloatTensor")`."""

import ast

from xlaport.ruleset.api import Context, syntax

DTYPES = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16"}


def check(context: Context):
    for call in context.calls("torch.set_default_tensor_type"):
        last = cuda_type(context, call.args[0]) if call.args else None
        if last is None or syntax.is_dead(call):
            continue
        if isinstance(call.parent, ast.Expr):
            template = f'torch.set_default_dtype(torch.{DTYPES[last]})\ntorch.set_default_device("{{device_type}}")'
            ops = [*context.replace_statement(call.parent, template), *context.ensure("torch_xla")]
            yield context.finding(call, "a default tensor type of CUDA; index and mask tensors of samplers move too: check them", ops)
        else:
            yield context.finding(call, "a default tensor type of CUDA: set the default device and dtype instead")


def cuda_type(context: Context, node: ast.expr) -> str | None:
    names = [node.value] if isinstance(node, ast.Constant) else context.names.qualified(node)
    for name in names:
        root, _, last = str(name).rpartition(".")
        if root == "torch.cuda" and last in DTYPES:
            return last
    return None
