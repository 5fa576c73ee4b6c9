"""What the arguments of a wrapper say: units, precision, mesh. Each as an argument of `fsdp.wrap` or `fsdp.make_mesh`, and in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

FSDP1 = "torch.distributed.fsdp.FullyShardedDataParallel"
FSDP1_ARGUMENTS = ("module", "process_group", "sharding_strategy", "cpu_offload", "auto_wrap_policy", "backward_prefetch", "mixed_precision")
"""By position (torch 2.9)."""

FSDP2 = "torch.distributed.fsdp.fully_shard"
DDP = ("torch.nn.parallel.DistributedDataParallel", "apex.parallel.DistributedDataParallel")
DATA_PARALLEL = "torch.nn.DataParallel"

PRECISIONS = ("torch.distributed.fsdp.MixedPrecision", "torch.distributed.fsdp.MixedPrecisionPolicy")
LOW = ("torch.bfloat16", "torch.float16", "torch.half")
DEVICE_MESH = "torch.distributed.device_mesh.init_device_mesh"
PARALLELIZE = "torch.distributed.tensor.parallel.parallelize_module"
PARTS = {"torch.distributed.tensor.parallel.ColwiseParallel": "column", "torch.distributed.tensor.parallel.RowwiseParallel": "row"}
MODEL_AXES = frozenset({"tp", "model", "tensor", "tensor_parallel", "mp"})
"""What programs call the dimension of a device mesh that layers are cut over."""

PARTIAL = ("functools.partial",)

WHOLE = "the model is one unit"
AS_IT_WAS = "as it was"
ALL_CHIPS = "xr.global_runtime_device_count()"
HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


@dataclass(frozen=True)
class Piece:
    """Source with holes, and the nodes that fill them; `said` is the same in a few words. `code` is empty for what is left out."""

    code: str = ""
    holes: dict[str, ast.AST] = field(default_factory=dict)
    said: str = ""


@dataclass(frozen=True)
class Wrapper:
    """One wrapper of a whole model: its mesh (arguments of `make_mesh`), units and precision."""

    call: ast.Call
    module: ast.expr
    mesh: Piece
    policy: Piece
    precision: Piece
    parts: Piece
    """How layers are cut over chips (`tensor_parallel`), where the program says so."""

    left: tuple[str, ...]
    """What has no counterpart, in words."""

    @property
    def is_sharded(self) -> bool:
        """Are parameters divided, or does each chip have all of them?"""
        return "fsdp=1" not in self.mesh.code


COPIES = Piece(f"fsdp=1, data={ALL_CHIPS}", said="a copy of the model on every chip")


def read(context: Context, call: ast.Call, has_inner: bool) -> Wrapper | None:
    """The settings of a wrapper; None where the module that is wrapped is not written out. `has_inner`: others wrap parts of the model."""
    module = syntax.argument(call, "module", 0)
    if module is None or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    if not context.refers(call.func, FSDP1, FSDP2):
        return Wrapper(call, module, COPIES, Piece(", policy=None", said=WHOLE), Piece(said=AS_IT_WAS), Piece(), batch_norm())
    given = arguments_of(context, call)
    strategy = strategy_of(given)
    parts, left = parts_of(context)
    mesh = mesh_of(context, call, strategy)
    if parts.code and (size := model_size(context)) is not None:
        mesh = Piece(", ".join(filter(None, [mesh.code, "model={size}"])), {**mesh.holes, "size": size}, f"{mesh.said}; layers over {ast.unparse(size)} chips along model")
    return Wrapper(call, module, mesh, units_of(context, call, has_inner), precision_of(context, call), parts, left_out(given, strategy) + left)


def batch_norm() -> tuple[str, ...]:
    return ("BatchNorm, where there is one, normalises over the batch of all chips",)


def whole_models(calls: Sequence[ast.Call]) -> list[ast.Call]:
    """The last call of each scope, outside loops: it wraps the whole model."""
    return list({syntax.enclosing_scope(call): call for call in calls if next(syntax.enclosing_loops(call), None) is None}.values())


def arguments_of(context: Context, call: ast.Call) -> dict[str, ast.expr]:
    """What a wrapper is given, by name; those of FSDP1 may be positional."""
    positional = zip(FSDP1_ARGUMENTS, call.args) if context.refers(call.func, FSDP1) else ()
    return {**dict(positional), **{keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}}


def strategy_of(given: Mapping[str, ast.expr]) -> str:
    return ast.unparse(given["sharding_strategy"]).rpartition(".")[2] if "sharding_strategy" in given else "FULL_SHARD"


def mesh_of(context: Context, call: ast.Call, strategy: str) -> Piece:
    given = syntax.argument(call, "mesh", 1) if context.refers(call.func, FSDP2) else syntax.argument(call, "device_mesh")
    copies = copies_of(context, given)
    if copies is not None:
        return Piece("data={copies}", {"copies": copies}, f"{ast.unparse(copies)} copies of the model, each over an equal part of the chips")
    if strategy in HYBRID:
        return Piece("data=xr.process_count()", {}, "a copy of the model on each host, over its chips")
    if strategy == "NO_SHARD":
        return COPIES
    unread = "" if strategy.isupper() else f", whatever {strategy} says"
    return Piece(said=f"all chips along fsdp{unread}")


def copies_of(context: Context, mesh: ast.expr | None) -> ast.expr | None:
    """Of a device mesh of two dimensions, the first: how many copies it has. A part of a mesh (`mesh["dp"]`) has one."""
    call = value_of(context, mesh)
    if not isinstance(call, ast.Call) or not context.refers(call.func, DEVICE_MESH):
        return None
    shape, names = syntax.argument(call, "mesh_shape", 1), syntax.argument(call, "mesh_dim_names")
    says_tensor_parallel = isinstance(names, (ast.Tuple, ast.List)) and any(constant(name) in MODEL_AXES for name in names.elts)
    is_two = isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) == 2
    return shape.elts[0] if is_two and not says_tensor_parallel else None


def parts_of(context: Context) -> tuple[Piece, tuple[str, ...]]:
    """The plans of `parallelize_module` in this file as rules by name, and the names of styles that have no rule."""
    rules, others = {}, set()
    for call in context.calls(PARALLELIZE):
        plan = value_of(context, syntax.argument(call, "parallelize_plan", 2))
        module = ast.unparse(syntax.argument(call, "module", 0) or call.func).partition(".")[2]
        items = dict(zip((constant(key) for key in plan.keys), plan.values)) if isinstance(plan, ast.Dict) else {module: plan}
        for name, style in items.items():
            kind = next((PARTS[known] for known in context.names.qualified(style.func) if known in PARTS), None) if isinstance(style, ast.Call) else None
            if isinstance(name, str) and name and kind is not None:
                rules[r"\.".join(r"[^.]+" if part == "*" else re.escape(part) for part in name.split("."))] = kind
            elif isinstance(style, ast.Call):
                others.add(ast.unparse(style.func))
    written = ", ".join(f'{quoted(pattern)}: "{kind}"' for pattern, kind in rules.items())
    left = tuple(f"{name} has no rule: the compiler decides where such values are" for name in sorted(others))
    return (Piece(f", tensor_parallel={{{written}}}", said=written) if rules else Piece()), left


def quoted(pattern: str) -> str:
    return f'r"{pattern}"' if "\\" in pattern else f'"{pattern}"'


def model_size(context: Context) -> ast.expr | None:
    """Of the device mesh, how many chips a layer is cut over."""
    for call in context.calls(DEVICE_MESH):
        shape, names = syntax.argument(call, "mesh_shape", 1), syntax.argument(call, "mesh_dim_names")
        if not isinstance(shape, (ast.Tuple, ast.List)):
            continue
        named = [constant(name) for name in names.elts] if isinstance(names, (ast.Tuple, ast.List)) else []
        found = next((size for size, name in zip(shape.elts, named) if name in MODEL_AXES), None)
        if found is None and len(shape.elts) == 1 and not named:
            found = shape.elts[0]
        if found is not None:
            return found
    return None


def value_of(context: Context, node: ast.expr | None) -> ast.expr | None:
    """What a name was given, where that is one expression; else the node itself."""
    if not isinstance(node, ast.Name):
        return node
    bindings = context.names.bindings(node)
    return bindings[0].value if len(bindings) == 1 and bindings[0].value is not None else node


def units_of(context: Context, call: ast.Call, has_inner: bool) -> Piece:
    """The policy itself goes on: `policies` makes what it was given one of `fsdp.wrap`."""
    if context.refers(call.func, FSDP2):
        return classes_of(context, call) if has_inner else Piece(", policy=None", said=WHOLE)
    given = arguments_of(context, call).get("auto_wrap_policy")
    if given is None or is_none(given):
        return Piece(said="the repeated blocks") if has_inner else Piece(", policy=None", said=WHOLE)
    if is_own_function(context, given):
        return Piece(said="the repeated blocks, as a policy function of your own is not carried over")
    return Piece(", policy={policy}", {"policy": given}, named(context, given))


def named(context: Context, policy: ast.expr) -> str:
    """The classes or the size that a policy is made of."""
    made = value_of(context, policy)
    if isinstance(made, ast.Call):
        values = [keyword.value for keyword in made.keywords] or made.args[-1:]
        return "by " + ", ".join(name for value in values for name in names_in(value))
    return f"by {ast.unparse(policy)}"


def names_in(value: ast.expr) -> list[str]:
    parts = value.elts if isinstance(value, (ast.Set, ast.Tuple, ast.List)) else [value]
    return [ast.unparse(part) for part in parts]


def classes_of(context: Context, root: ast.Call) -> Piece:
    """`for m in model.modules(): if isinstance(m, Block): fully_shard(m)`; other wraps of layers are those of the repeated blocks."""
    for call in context.calls(FSDP2):
        condition = call.parent.parent if isinstance(call.parent, ast.Expr) else None
        if call is root or not isinstance(condition, ast.If) or not isinstance(condition.test, ast.Call):
            continue
        test = condition.test
        if isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2 and call.args and ast.unparse(test.args[0]) == ast.unparse(call.args[0]):
            return Piece(", policy={classes}", {"classes": test.args[1]}, f"by {ast.unparse(test.args[1])}")
    return Piece(said="the repeated blocks")


def is_own_function(context: Context, policy: ast.expr) -> bool:
    """`def policy(module, recurse, nonwrapped_numel)` of the program, alone or in a partial: torch calls it with other arguments."""
    value = value_of(context, policy)
    function = value.args[0] if isinstance(value, ast.Call) and context.refers(value.func, *PARTIAL) and value.args else policy
    if not isinstance(function, ast.Name):
        return isinstance(function, ast.Lambda)
    return any(isinstance(binding.node, (ast.FunctionDef, ast.Lambda)) for binding in context.names.bindings(function))


def precision_of(context: Context, call: ast.Call) -> Piece:
    name = "mp_policy" if context.refers(call.func, FSDP2) else "mixed_precision"
    given = arguments_of(context, call).get(name)
    if given is not None:
        return Piece(", mixed_precision={precision}", {"precision": given}, computed_in(context, given))
    settings = next((keyword.value for keyword in call.keywords if keyword.arg is None), None)
    if isinstance(settings, ast.Name) and says_key(context, settings, name):
        return Piece(f', mixed_precision={{settings}}.get("{name}")', {"settings": settings}, f"what {settings.id} says")
    return Piece(said=AS_IT_WAS)


def computed_in(context: Context, given: ast.expr) -> str:
    """The type that a precision says, where it is made in one place."""
    made, kept = value_of(context, given), ", with float32 weights in the optimizer"
    if is_none(made):
        return AS_IT_WAS
    if not isinstance(made, ast.Call) or not context.refers(made.func, *PRECISIONS):
        return f"bfloat16 where the program asks for it{kept}"
    kind = parameter_type(context, made)
    if kind is None:
        return AS_IT_WAS
    return f"bfloat16{kept}" if context.refers(kind, *LOW) else f"what {ast.unparse(kind)} is{kept}"


def says_key(context: Context, settings: ast.Name, key: str) -> bool:
    """Does the file put `key` into the dict that is spread here?"""
    stored = (node for node in context.facts.of(ast.Subscript) if constant(node.slice) == key and isinstance(node.ctx, ast.Store))
    if any(isinstance(node.value, ast.Name) and node.value.id == settings.id for node in stored):
        return True
    value = value_of(context, settings)
    if isinstance(value, ast.Dict):
        return any(constant(item) == key for item in value.keys if item is not None)
    return isinstance(value, ast.Call) and any(keyword.arg == key for keyword in value.keywords)


def parameter_type(context: Context, call: ast.Call) -> ast.expr | None:
    """Of a mixed precision, the type that parameters are cast to; None where they keep theirs."""
    given = syntax.argument(call, "param_dtype", 0)
    is_cast = given is not None and not is_none(given) and not context.refers(given, "torch.float32", "torch.float")
    return given if is_cast else None


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def left_out(arguments: Mapping[str, ast.expr], strategy: str) -> tuple[str, ...]:
    given = {name: ast.unparse(value) for name, value in arguments.items()}
    found = []
    if strategy == "SHARD_GRAD_OP" or given.get("reshard_after_forward") == "False":
        found.append("when parameters are gathered is the compiler's choice")
    if "True" in given.get("cpu_offload", "") or "Offload" in given.get("offload_policy", ""):
        found.append("nothing is offloaded to the host")
    if given.get("param_init_fn", "None") != "None":
        found.append("param_init_fn is not called: the model must have its values")
    return tuple(found)
