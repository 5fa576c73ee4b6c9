"""What kind of value an expression has, inferred on demand without importing torch.

`Values.kind` answers from evidence: constructors, annotations, method results, assignments,
attributes of `self`, arguments at known call sites, argparse defaults. `Values.guess` falls back
to what people call things (`device`, `optimizer`, `rank`) when there is no evidence at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from xlaport.analysis.facts import FUNCTIONS, ModuleFacts, ancestors, enclosing, enclosing_function, own_statements
from xlaport.analysis.names import Binding, Names

if TYPE_CHECKING:
    from xlaport.analysis.project import Module, Project


class Kind(Flag):
    UNKNOWN = 0
    TENSOR = auto()
    MODULE = auto()
    OPTIMIZER = auto()
    SCHEDULER = auto()
    SCALER = auto()
    LOADER = auto()
    SAMPLER = auto()
    DEVICE = auto()
    """A `torch.device`."""
    STRING = auto()
    DEVICE_STRING = auto()
    """A string known to start with `cuda` or `xla`, or to be `cpu`."""
    RANK = auto()
    """A process rank or the index of the process's own device."""
    WORLD_SIZE = auto()
    DEVICE_COUNT = auto()
    INT = auto()
    FLOAT = auto()
    BOOL = auto()
    DTYPE = auto()
    LEGACY_TYPE = auto()
    """`torch.FloatTensor`, `torch.cuda.LongTensor`: a constructor that is also a dtype with a place."""
    STATE = auto()
    """A state dict, or the object a checkpoint file gives."""
    CONTAINER = auto()
    NONE = auto()
    OTHER = auto()
    """Known, and none of the above."""


NUMBER = Kind.INT | Kind.RANK | Kind.WORLD_SIZE | Kind.DEVICE_COUNT
PLACE = Kind.DEVICE | Kind.DEVICE_STRING

CALLS: dict[str, Kind] = {
    "torch.device": Kind.DEVICE,
    "torch_xla.device": Kind.DEVICE,
    "torch_xla.core.xla_model.xla_device": Kind.DEVICE,
    "torch.accelerator.current_accelerator": Kind.DEVICE,
    "torch.cuda.current_device": Kind.RANK,
    "torch.cuda.device_count": Kind.DEVICE_COUNT,
    "torch.accelerator.device_count": Kind.DEVICE_COUNT,
    "torch_xla.device_count": Kind.DEVICE_COUNT,
    "torch_xla.runtime.local_device_count": Kind.DEVICE_COUNT,
    "torch_xla.runtime.global_runtime_device_count": Kind.DEVICE_COUNT,
    "torch.distributed.get_rank": Kind.RANK,
    "torch.distributed.get_node_local_rank": Kind.RANK,
    "torch_xla.runtime.global_ordinal": Kind.RANK,
    "torch_xla.runtime.local_ordinal": Kind.RANK,
    "torch.distributed.get_world_size": Kind.WORLD_SIZE,
    "torch_xla.runtime.world_size": Kind.WORLD_SIZE,
    "torch.cuda.amp.GradScaler": Kind.SCALER,
    "torch.amp.GradScaler": Kind.SCALER,
    "torch.utils.data.DataLoader": Kind.LOADER,
    "torch_xla.distributed.parallel_loader.MpDeviceLoader": Kind.LOADER,
    "torch.utils.data.DistributedSampler": Kind.SAMPLER,
    "torch.utils.data.distributed.DistributedSampler": Kind.SAMPLER,
    "torch.load": Kind.STATE,
    "torch.nn.DataParallel": Kind.MODULE,
    "torch.nn.parallel.DistributedDataParallel": Kind.MODULE,
    "torch.compile": Kind.MODULE,
    "torch.distributed.fsdp.FullyShardedDataParallel": Kind.MODULE,
    "torch.nn.Parameter": Kind.TENSOR,
    "torch.nn.utils.clip_grad_norm_": Kind.TENSOR,
    "torch.autograd.Variable": Kind.TENSOR,
    "torch.cuda.is_available": Kind.BOOL,
    "torch.accelerator.is_available": Kind.BOOL,
    "torch.finfo": Kind.OTHER,
    "torch.Generator": Kind.OTHER,
    "torch.no_grad": Kind.OTHER,
    "torch.utils.tensorboard.SummaryWriter": Kind.OTHER,
    "int": Kind.INT,
    "len": Kind.INT,
    "float": Kind.FLOAT,
    "str": Kind.STRING,
    "bool": Kind.BOOL,
    "dict": Kind.CONTAINER,
    "list": Kind.CONTAINER,
    "tuple": Kind.CONTAINER,
    "set": Kind.CONTAINER,
    "range": Kind.CONTAINER,
}
TENSOR_FACTORIES = frozenset(
    "tensor as_tensor from_numpy zeros ones empty full rand randn randint randperm arange linspace logspace eye "
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like cat stack where matmul mm bmm einsum "
    "normal bernoulli multinomial sum mean max min abs exp log sqrt clamp cumsum sort topk argmax argmin norm "
    "flatten reshape squeeze unsqueeze transpose permute chunk split gather scatter index_select masked_select "
    "sigmoid tanh softmax log_softmax relu conv2d linear complex polar outer dot cross diag tril triu".split()
)
DTYPES = frozenset(
    "float32 float float64 double float16 half bfloat16 int8 uint8 int16 short int32 int int64 long bool complex64 "
    "complex128 cfloat cdouble float8_e4m3fn float8_e5m2".split()
)
LEGACY_TYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32", "LongTensor": "int64",
    "BoolTensor": "bool", "Tensor": "float32",
}
ANNOTATIONS: dict[str, Kind] = {
    "torch.Tensor": Kind.TENSOR, "torch.nn.Module": Kind.MODULE, "torch.optim.Optimizer": Kind.OPTIMIZER,
    "torch.device": Kind.DEVICE, "torch.dtype": Kind.DTYPE, "torch.utils.data.DataLoader": Kind.LOADER,
    "torch.amp.GradScaler": Kind.SCALER, "torch.cuda.amp.GradScaler": Kind.SCALER,
    "int": Kind.INT, "float": Kind.FLOAT, "str": Kind.STRING, "bool": Kind.BOOL, "torch.LongTensor": Kind.TENSOR,
    "torch.FloatTensor": Kind.TENSOR,
}
TENSOR_METHODS = frozenset(
    "cuda cpu float double half bfloat16 long int short byte bool detach clone contiguous view reshape permute transpose "
    "squeeze unsqueeze expand repeat flatten mean sum min max abs exp log sqrt pow clamp type type_as new_zeros new_ones "
    "new_tensor new_full new_empty requires_grad_ masked_fill masked_fill_ fill_ zero_ normal_ uniform_ add add_ mul mul_ "
    "sub div matmul mm bmm t softmax log_softmax sigmoid tanh relu argmax argmin topk gather scatter scatter_ pin_memory".split()
)
MODULE_METHODS = frozenset("cuda cpu float double half bfloat16 to train eval requires_grad_ apply to_empty type".split())
MODULE_BASES = frozenset({"lightning.pytorch.LightningModule", "lightning.LightningModule", "torch.jit.ScriptModule"})
PLAIN_BASES = frozenset({"object", "ABC", "Protocol", "Generic", "Enum", "Exception", "NamedTuple", "TypedDict", "dict", "list", "Dataset", "IterableDataset"})
RANK_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"})

GUESSES: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"(^|_)(device|dev)$|^device(_id)?s?$"), Kind.DEVICE),
    (re.compile(r"^(local_|global_|node_|process_)?rank$|^gpu(_id|_idx|_index)?$|^proc_id$"), Kind.RANK),
    (re.compile(r"(^|_)(optim(izer)?|opt)s?(_|\d|$)|optimizer|^optim"), Kind.OPTIMIZER),
    (re.compile(r"sched|^lr_"), Kind.SCHEDULER),
    (re.compile(r"scaler"), Kind.SCALER),
    (re.compile(r"(^|_)(loader|dataloader|dl|batches)(_|$)|loader$"), Kind.LOADER),
    (re.compile(r"(^|_)(model|net|network|module|encoder|decoder|generator|discriminator|critic|actor|criterion|backbone)\d*$|^net[A-Z_]"), Kind.MODULE),
    (re.compile(r"(^|_)(world_size|ngpus|n_gpus?|num_gpus)(_|$)"), Kind.WORLD_SIZE),
    (re.compile(r"(^|_)dtype$"), Kind.DTYPE),
)


@dataclass(eq=False)
class Inference:
    """The questions being answered right now, over all modules of a project, and those that ran into themselves."""

    busy: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    provisional: dict[int, Kind] = field(default_factory=dict)
    fuel: int = 0
    callers: int = 0
    """How many steps from callee to caller the current question has taken."""


DEEPEST = 60
"""Questions that may wait for one another: a guard against Python's recursion limit."""

FUEL = 800
"""Questions one question may raise. A program of 500 lines needs fewer than 200 for its hardest."""

TOO_DEEP = -1
MOST_CALLERS = 2
MOST_CALLS = 8
"""Steps from a parameter to the arguments of its callers, and on to theirs."""


class Values:
    """Kinds of the expressions of one module, remembered."""

    def __init__(self, facts: ModuleFacts, names: Names, project: Project, path: Path):
        self.facts = facts
        self.names = names
        self.project = project
        self.path = path
        self._kinds: dict[int, Kind] = {}
        self._attributes: dict[ast.ClassDef, dict[str, list[ast.expr]]] = {}
        self._inference = project.inference
        self.memo: dict = {}
        """What others derive from this module's values, forgotten with them."""

    def forget(self) -> None:
        self._kinds.clear()
        self._attributes.clear()
        self.memo.clear()

    # -- the two questions

    def kind(self, node: ast.AST | None) -> Kind:
        """Every kind the expression may have by evidence; `UNKNOWN` without any."""
        if node is None:
            return Kind.UNKNOWN
        key = id(node)
        if key in self._kinds:
            return self._kinds[key]
        state = self._inference
        if key in state.provisional:
            state.cut.add(TOO_DEEP)
            return state.provisional[key]
        if key in state.busy or len(state.busy) > DEEPEST or state.busy and state.fuel <= 0:
            state.cut.add(key if key in state.busy else TOO_DEEP)
            return Kind.UNKNOWN
        return self._answered(node, key, state)

    def _answered(self, node: ast.AST, key: int, state: Inference) -> Kind:
        """Infer, and remember: for good when complete, until the outermost question is answered otherwise."""
        if not state.busy:
            state.fuel = FUEL
        outer, state.cut = state.cut, set()
        state.busy.add(key)
        state.fuel -= 1
        try:
            found = self._infer(node)
        finally:
            state.busy.discard(key)
            state.cut.discard(key)
            complete = not state.cut
            state.cut |= outer
        if complete or not state.busy:
            self._kinds[key] = found
        else:
            state.provisional[key] = found  # an answer that waits for another question is not final
        if not state.busy:
            state.provisional.clear()
            state.cut.clear()
        return found

    def guess(self, node: ast.AST | None) -> Kind:
        """`kind`, and where that is unknown, what the name suggests."""
        found = self.kind(node)
        return found if found else guess_by_name(last_name(node))

    # -- inference

    def _infer(self, node: ast.AST) -> Kind:
        method = getattr(self, f"_infer_{type(node).__name__}", None)
        return method(node) if method else Kind.UNKNOWN

    def _infer_Constant(self, node: ast.Constant) -> Kind:
        value = node.value
        if value is None:
            return Kind.NONE
        if isinstance(value, bool):
            return Kind.BOOL
        if isinstance(value, int):
            return Kind.INT
        if isinstance(value, float):
            return Kind.FLOAT
        if isinstance(value, str):
            return Kind.STRING | (Kind.DEVICE_STRING if is_device_string(value) else Kind.UNKNOWN)
        return Kind.OTHER

    def _infer_JoinedStr(self, node: ast.JoinedStr) -> Kind:
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and str(first.value).startswith(("cuda:", "xla:")):
            return Kind.STRING | Kind.DEVICE_STRING
        return Kind.STRING

    def _infer_IfExp(self, node: ast.IfExp) -> Kind:
        return self.kind(node.body) | self.kind(node.orelse)

    def _infer_BoolOp(self, node: ast.BoolOp) -> Kind:
        found = Kind.UNKNOWN
        for value in node.values:
            found |= self.kind(value)
        return found

    def _infer_NamedExpr(self, node: ast.NamedExpr) -> Kind:
        return self.kind(node.value)

    def _infer_Await(self, node: ast.Await) -> Kind:
        return self.kind(node.value)

    def _infer_UnaryOp(self, node: ast.UnaryOp) -> Kind:
        return Kind.BOOL if isinstance(node.op, ast.Not) else self.kind(node.operand)

    def _infer_Compare(self, node: ast.Compare) -> Kind:
        return Kind.UNKNOWN if Kind.TENSOR in self.kind(node.left) else Kind.BOOL

    def _infer_BinOp(self, node: ast.BinOp) -> Kind:
        left, right = self.kind(node.left), self.kind(node.right)
        if Kind.STRING in left and isinstance(node.op, (ast.Add, ast.Mod)):
            return Kind.STRING | (Kind.DEVICE_STRING if starts_device_name(node.left) else Kind.UNKNOWN)
        if Kind.TENSOR in left or Kind.TENSOR in right:
            return Kind.TENSOR
        if left & NUMBER and right & NUMBER:
            return Kind.RANK if Kind.RANK in left | right and isinstance(node.op, ast.Mod) else Kind.INT
        if Kind.FLOAT in left | right:
            return Kind.FLOAT
        return Kind.UNKNOWN

    def _infer_Dict(self, node: ast.Dict) -> Kind:
        return Kind.CONTAINER

    _infer_List = _infer_Tuple = _infer_Set = _infer_ListComp = _infer_DictComp = _infer_SetComp = _infer_Dict

    def _infer_Subscript(self, node: ast.Subscript) -> Kind:
        if is_environment(node.value, self.names):
            return Kind.RANK | Kind.STRING if constant(node.slice) in RANK_VARIABLES else Kind.STRING
        base = self.kind(node.value)
        if Kind.TENSOR in base:
            return Kind.TENSOR
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return Kind.INT
        return Kind.STATE if Kind.STATE in base else Kind.UNKNOWN

    def _infer_Name(self, node: ast.Name) -> Kind:
        bindings = self.names.bindings(node)
        if not bindings:
            return self._kind_of_references(node)
        found = Kind.UNKNOWN
        for binding in reaching(bindings, node):
            found |= self._kind_of_binding(binding, node.id)
        return found

    def _kind_of_references(self, node: ast.expr) -> Kind:
        """The kind of the first thing an expression may refer to that has one."""
        return next((found for name in self.names.qualified(node) if (found := self._kind_of_reference(name))), Kind.UNKNOWN)

    def _kind_of_reference(self, name: str) -> Kind:
        root, _, last = name.rpartition(".")
        if root == "torch" and last in DTYPES:
            return Kind.DTYPE
        if last in LEGACY_TYPES and root in {"torch", "torch.cuda"}:
            return Kind.LEGACY_TYPE
        if "." in name:
            found = self.project.definition(name, self.path)
            if found is not None and isinstance(found[1], ast.expr):
                return found[0].values.kind(found[1])
            if found is not None and isinstance(found[1], FUNCTIONS):
                return Kind.OTHER
        return Kind.UNKNOWN

    def _kind_of_binding(self, binding: Binding, name: str) -> Kind:
        if binding.target:
            return self._kind_of_reference(binding.target)
        if binding.how == "assign":
            declared = self._annotated(getattr(binding.node, "annotation", None))
            return declared or self.kind(binding.value)
        if binding.how == "parameter":
            return self._kind_of_parameter(binding.node)
        if binding.how == "loop":
            return self._kind_of_loop_variable(binding.node, name)
        if binding.how == "unpacked":
            return self._kind_of_unpacked(binding, name)
        if binding.how == "with":
            return Kind.OTHER
        if binding.how in {"class", "function"}:
            return Kind.OTHER
        return Kind.UNKNOWN

    def _kind_of_unpacked(self, binding: Binding, name: str) -> Kind:
        value = binding.value
        if not isinstance(value, ast.Call):
            return Kind.TENSOR if value is not None and Kind.TENSOR in self.kind(value) else Kind.UNKNOWN
        if isinstance(value.func, ast.Attribute) and value.func.attr == "prepare":
            return self._kind_of_prepared(value, binding, name)
        part = next(self.unpacked_parts(binding, name), None)
        return part[1].kind(part[0]) if part is not None else Kind.UNKNOWN

    def _kind_of_prepared(self, call: ast.Call, binding: Binding, name: str) -> Kind:
        """`a, b = accelerator.prepare(a, b)` gives back what it was given, wrapped."""
        index = position_in_target(binding.node, name)
        if index is None or index >= len(call.args) or last_name(call.args[index]) != name:
            return Kind.UNKNOWN
        return guess_by_name(name)

    def _kind_of_loop_variable(self, loop: ast.AST, name: str) -> Kind:
        source = loop.iter
        if isinstance(source, ast.Call) and last_name(source.func) == "enumerate" and source.args:
            if position_in_target_node(loop.target, name) == 0:
                return Kind.INT
            source = source.args[0]
        elif isinstance(source, ast.Call) and last_name(source.func) == "range":
            return Kind.INT
        plural = guess_by_name(last_name(source)) & (Kind.OPTIMIZER | Kind.SCHEDULER)
        if plural:
            return plural  # `for o in self.optimizers:`
        if Kind.LOADER in self.guess(source):
            return Kind.UNKNOWN  # a batch: a tensor on the host, a list, a dict
        return Kind.TENSOR if Kind.TENSOR in self.kind(source) else Kind.UNKNOWN

    def _kind_of_parameter(self, parameter: ast.arg) -> Kind:
        function = parameter.parent.parent
        declared = self._annotated(parameter.annotation)
        if declared:
            return declared
        found = self.kind(default_of(function, parameter)) & ~Kind.NONE
        if isinstance(function, ast.Lambda):
            return found
        if parameter.arg in {"self", "cls"}:
            return Kind.OTHER
        if found & ~Kind.BOOL or function.name.startswith("__") and function.name != "__init__":
            return found
        return found | self._kind_from_calls(function, parameter)

    def _kind_from_calls(self, function: ast.AST, parameter: ast.arg) -> Kind:
        """The arguments at up to eight call sites in the program."""
        state = self._inference
        if state.callers == MOST_CALLERS:
            state.cut.add(TOO_DEEP)
            return Kind.UNKNOWN
        state.callers += 1
        try:
            return self._kind_of_arguments(parameter) | self._kind_from_spawn(function, parameter)
        finally:
            state.callers -= 1

    def arguments_of(self, parameter: ast.arg) -> Iterator[tuple[Module, ast.expr]]:
        """The expressions that calls in the program pass for a parameter, each with its module."""
        function = parameter.parent.parent
        if isinstance(function, ast.Lambda):
            return
        owner = enclosing(function, ast.ClassDef)
        is_method = owner is not None and function.parent is owner
        name = owner.name if is_method and function.name == "__init__" else function.name
        for module, call in self.project.calls_of(self.path, name):
            argument = argument_for(function, parameter, call, is_method)
            if argument is not None:
                yield module, argument

    def origins(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """Expressions a value may come from: through assignments, parameters and returns, up to four steps."""
        if depth > 4:
            return
        if isinstance(node, ast.Call):
            yield node
            for function, owner in self.functions_called(node):
                for result in returned(function):
                    yield from owner.origins(result, depth + 1)
        elif isinstance(node, ast.Name):
            for binding in self.names.bindings(node):
                if binding.how == "parameter":
                    for module, argument in self.arguments_of(binding.node):
                        yield from module.values.origins(argument, depth + 1)
                elif binding.how == "unpacked" and isinstance(binding.value, ast.Call):
                    for part, owner in self.unpacked_parts(binding, node.id):
                        yield from owner.origins(part, depth + 1)
                elif binding.value is not None:
                    yield from self.origins(binding.value, depth + 1)

    def unpacked_parts(self, binding: Binding, name: str) -> Iterator[tuple[ast.expr, Values]]:
        """What functions of the project return at the place where a target takes it: `a, b = load()`."""
        index = position_in_target(binding.node, name)
        for function, owner in self.functions_called(binding.value):
            for result in returned(function):
                if isinstance(result, ast.Tuple) and index is not None and index < len(result.elts):
                    yield result.elts[index], owner

    def _kind_of_arguments(self, parameter: ast.arg) -> Kind:
        found = Kind.UNKNOWN
        for module, argument in islice(self.arguments_of(parameter), MOST_CALLS):
            found |= module.values.kind(argument)
        return found

    @property
    def calls_by_last_name(self) -> dict[str, list[ast.Call]]:
        """`f` -> calls written `f(...)` or `x.f(...)` in this module."""
        if "calls by last name" not in self.memo:
            table: dict[str, list[ast.Call]] = {}
            for call in self.facts.of(ast.Call):
                table.setdefault(last_name(call.func), []).append(call)
            self.memo["calls by last name"] = table
        return self.memo["calls by last name"]

    def _kind_from_spawn(self, function: ast.AST, parameter: ast.arg) -> Kind:
        """The first parameter of a function started by `mp.spawn(f, ...)` is the process index."""
        positional = [*function.args.posonlyargs, *function.args.args]
        if not positional or positional[0] is not parameter:
            return Kind.UNKNOWN
        for name in ("spawn", "launch"):
            for call in self.calls_by_last_name.get(name, ()):
                if call.args and last_name(call.args[0]) == function.name:
                    return Kind.RANK | Kind.INT
        return Kind.UNKNOWN

    def _annotated(self, annotation: ast.expr | None) -> Kind:
        if annotation is None:
            return Kind.UNKNOWN
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return next((kind for name, kind in ANNOTATIONS.items() if name.split(".", 1)[-1] == annotation.value), Kind.UNKNOWN)
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            return (self._annotated(annotation.left) | self._annotated(annotation.right)) & ~Kind.NONE
        if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Optional":
            return self._annotated(annotation.slice)
        if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Union":
            found = Kind.UNKNOWN
            for member in getattr(annotation.slice, "elts", ()):
                found |= self._annotated(member)
            return found & ~Kind.NONE
        names = self.names.qualified(annotation) or ((annotation.id,) if isinstance(annotation, ast.Name) else ())
        for name in names:
            if name in ANNOTATIONS:
                return ANNOTATIONS[name]
            if name.startswith("torch.nn."):
                return Kind.MODULE
            if name.startswith("torch.optim.lr_scheduler."):
                return Kind.SCHEDULER
        definition = self.class_of_name(annotation)
        return self.kind_of_class(*definition) if definition else Kind.UNKNOWN

    # -- attributes

    def _infer_Attribute(self, node: ast.Attribute) -> Kind:
        found = self._kind_of_references(node)
        if found:
            return found
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            owner = enclosing(node, ast.ClassDef)
            if owner is not None:
                return self.kind_of_attribute(owner, node.attr)
        if node.attr == "device":
            base = self.kind(node.value)
            return Kind.DEVICE if not base or base & (Kind.TENSOR | Kind.MODULE) else self._option(node)
        if node.attr in {"shape", "is_cuda", "is_leaf", "requires_grad"}:
            return Kind.OTHER
        if node.attr in {"data", "grad", "T", "mT", "real", "imag"} and Kind.TENSOR in self.kind(node.value):
            return Kind.TENSOR
        if node.attr == "dtype":
            return Kind.DTYPE
        if node.attr == "module" and Kind.MODULE in self.guess(node.value):
            return Kind.MODULE
        return self._attribute_of_instance(node) or self._option(node)

    def _attribute_of_instance(self, node: ast.Attribute) -> Kind:
        """`trainer.optimizer` when `trainer` is an instance of a class of the project."""
        found = self.class_of_instance(node.value)
        if found is None:
            return Kind.UNKNOWN
        cls, owner = found
        return owner.kind_of_attribute(cls, node.attr)

    def _option(self, node: ast.Attribute) -> Kind:
        """`args.device`: what argparse was told about `--device`, in this file or its program."""
        found = Kind.UNKNOWN
        for owner, call in self.options(node.attr):
            keywords = {item.arg: item.value for item in call.keywords}
            found |= owner.kind(keywords.get("default")) & ~Kind.NONE
            kind = keywords.get("type")
            if isinstance(kind, ast.Name):
                found |= CALLS.get(kind.id, Kind.UNKNOWN)
            if constant(keywords.get("action")) in {"store_true", "store_false"}:
                found |= Kind.BOOL
            if node.attr in {"local_rank", "rank", "gpu", "gpu_id"} and found & Kind.INT:
                found |= Kind.RANK
        found |= self._assigned_options(node)
        return found

    def _assigned_options(self, node: ast.Attribute) -> Kind:
        """`args.gpu = int(os.environ['LOCAL_RANK'])` anywhere in this module."""
        found = Kind.UNKNOWN
        for value in self._attribute_assignments.get((last_name(node.value), node.attr), ()):
            found |= self.kind(value) & ~Kind.NONE
        return found

    @property
    def _attribute_assignments(self) -> dict[tuple[str, str], list[ast.expr]]:
        """(`args`, `gpu`) -> values assigned to `args.gpu` anywhere in this module."""
        if "attributes" not in self.memo:
            table: dict[tuple[str, str], list[ast.expr]] = {}
            for assign in self.facts.of(ast.Assign):
                for target in assign.targets:
                    if isinstance(target, ast.Attribute):
                        table.setdefault((last_name(target.value), target.attr), []).append(assign.value)
            self.memo["attributes"] = table
        return self.memo["attributes"]

    def options(self, destination: str) -> Iterator[tuple[Values, ast.Call]]:
        """`add_argument` calls that fill `destination`: of this module, else of the program's other files."""
        own = self.options_by_destination.get(destination, ())
        yield from ((self, call) for call in own)
        if own:
            return
        names = {destination, destination.rpartition("_")[2]}
        making = self.project.with_word("add_argument", within=self.project.links.program(self.path))
        for path in self.project.with_word(*names, within=self.project.files.mask(making)):
            if path == self.path:
                continue
            module = self.project.parsed(path)
            if module is not None:
                yield from ((module.values, call) for call in module.values.options_by_destination.get(destination, ()))

    @property
    def options_by_destination(self) -> dict[str, list[ast.Call]]:
        """`device` -> the `add_argument` calls of this module that fill it."""
        if "options" not in self.memo:
            table: dict[str, list[ast.Call]] = {}
            for call in self.calls_by_last_name.get("add_argument", ()):
                if isinstance(call.func, ast.Attribute) and call.args:
                    table.setdefault(destination_of(call), []).append(call)
            self.memo["options"] = table
        return self.memo["options"]

    def kind_of_attribute(self, owner: ast.ClassDef, name: str, depth: int = 0) -> Kind:
        """Kinds of what methods of a class (or of its bases in the project) assign to `self.name`."""
        found = Kind.UNKNOWN
        for value in self.assigned_attributes(owner).get(name, ()):
            found |= self.kind(value) if isinstance(value, ast.expr) else Kind.UNKNOWN
        for member in owner.body:
            if isinstance(member, FUNCTIONS) and member.name == name:
                if any(last_name(item) in {"property", "cached_property"} for item in member.decorator_list):
                    for result in returned(member):
                        found |= self.kind(result)
        found &= ~Kind.NONE
        if found or depth > 3:
            return found
        for base in owner.bases:
            definition = self.class_of_name(base)
            if definition and definition[0] is not owner:
                found |= definition[1].kind_of_attribute(definition[0], name, depth + 1)
        return found

    def assigned_attributes(self, owner: ast.ClassDef) -> dict[str, list[ast.expr]]:
        """attribute -> expressions assigned to it in the class body and through `self` in methods."""
        if not self._attributes:
            self._attributes.update(attributes_by_class(self.facts))
        return self._attributes.get(owner, {})

    # -- calls

    def _infer_Call(self, node: ast.Call) -> Kind:
        for name in self.names.qualified(node.func) or builtin_name(node.func):
            found = self._kind_of_call(name, node)
            if found:
                return found
        if Kind.LEGACY_TYPE in self.kind(node.func):
            return Kind.TENSOR
        instance = self.class_of_instance(node)
        if instance:
            return instance[1].kind_of_class(*instance)
        if isinstance(node.func, ast.Attribute):
            found = self._kind_of_method(node, node.func)
            if found:
                return found
        found = self._kind_of_references(node)
        for function, owner in self.functions_called(node):
            for result in returned(function):
                found |= owner.kind(result)
        if not found and Kind.MODULE in self.kind(node.func):
            return Kind.TENSOR
        return found & ~Kind.NONE if found != Kind.NONE else found

    def _kind_of_call(self, name: str, node: ast.Call) -> Kind:
        if name == "int" and node.args:
            return Kind.INT | (self.kind(node.args[0]) & (Kind.RANK | Kind.WORLD_SIZE))
        if name in CALLS:
            return CALLS[name]
        root, _, last = name.rpartition(".")
        if root == "torch.optim.lr_scheduler" or root.endswith("lr_scheduler"):
            return Kind.SCHEDULER
        if root.startswith(("torch.optim", "torch_xla.amp.syncfree", "apex.optimizers", "bitsandbytes.optim", "timm.optim")):
            return Kind.OPTIMIZER
        if name.startswith("torch.nn.functional."):
            return Kind.TENSOR
        if name.startswith("torch.nn.") and last[:1].isupper():
            return Kind.MODULE
        if name.startswith(("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")):
            return Kind.MODULE
        if name.startswith("transformers.") and last in {"from_pretrained", "from_config"} and "Tokenizer" not in name and "Processor" not in name:
            return Kind.MODULE
        if root == "torch" and last in TENSOR_FACTORIES:
            return Kind.TENSOR
        if name in {"os.environ.get", "os.getenv"}:
            return Kind.RANK | Kind.STRING if node.args and constant(node.args[0]) in RANK_VARIABLES else Kind.STRING
        return Kind.UNKNOWN

    def _kind_of_method(self, node: ast.Call, func: ast.Attribute) -> Kind:
        base = self.kind(func.value)
        if func.attr in {"state_dict"}:
            return Kind.STATE
        if func.attr == "parse_args":
            return Kind.OTHER
        if Kind.MODULE in base and func.attr in MODULE_METHODS:
            return Kind.MODULE
        if Kind.TENSOR in base and (func.attr in TENSOR_METHODS or func.attr == "to"):
            return Kind.TENSOR
        if func.attr in {"to", "cuda"} and Kind.MODULE in guess_by_name(last_name(func.value)) and not base:
            return Kind.MODULE
        if func.attr == "format" and Kind.STRING in base:
            return Kind.STRING | (Kind.DEVICE_STRING if starts_device_name(func.value) else Kind.UNKNOWN)
        if func.attr in {"size", "dim", "numel", "ndimension"}:
            return Kind.INT
        return Kind.UNKNOWN

    def constructors(self, node: ast.expr, depth: int = 0) -> tuple[str, ...]:
        """Qualified names of the calls whose result an expression may be: `('torch.optim.LBFGS',)`."""
        if isinstance(node, ast.Call):
            return self.names.qualified(node.func)
        if depth > 3:
            return ()
        values: list[ast.expr] = []
        if isinstance(node, ast.Name):
            values = [b.value for b in self.names.bindings(node) if b.how == "assign" and b.value is not None]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            owner = enclosing(node, ast.ClassDef)
            values = list(self.assigned_attributes(owner).get(node.attr, ())) if owner else []
        return tuple(dict.fromkeys(name for value in values for name in self.constructors(value, depth + 1)))

    # -- classes and functions of the project

    def functions_called(self, call: ast.Call) -> Iterator[tuple[ast.AST, Values]]:
        """Functions of the project a call may run, each with the values of its own module."""
        func = call.func
        if isinstance(func, ast.Name):
            for binding in self.names.bindings(func):
                if binding.how == "function":
                    yield binding.node, self
        if isinstance(func, ast.Attribute):
            found = None
            if isinstance(func.value, ast.Name) and func.value.id in {"self", "cls"}:
                owner = enclosing(call, ast.ClassDef)
                found = (owner, self) if owner else None
            else:
                found = self.class_of_instance(func.value)
            if found:
                method = next((m for m in found[0].body if isinstance(m, FUNCTIONS) and m.name == func.attr), None)
                if method is not None:
                    yield method, found[1]
        for name in self.names.qualified(func):
            found = self.project.definition(name, self.path) if "." in name else None
            if found and isinstance(found[1], FUNCTIONS):
                yield found[1], found[0].values

    def class_of_name(self, node: ast.expr) -> tuple[ast.ClassDef, Values] | None:
        """The class of the project an expression names."""
        if isinstance(node, ast.Name):
            for binding in self.names.bindings(node):
                if binding.how == "class":
                    return binding.node, self
        for name in self.names.qualified(node):
            found = self.project.definition(name, self.path) if "." in name else None
            if found and isinstance(found[1], ast.ClassDef):
                return found[1], found[0].values
        return None

    def class_of_instance(self, node: ast.expr) -> tuple[ast.ClassDef, Values] | None:
        """The class of the project an expression is an instance of."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in MODULE_METHODS | {"to"}:
                return self.class_of_instance(node.func.value)
            return self.class_of_name(node.func)
        if isinstance(node, ast.Name):
            if node.id == "self":
                owner = enclosing(node, ast.ClassDef)
                return (owner, self) if owner else None
            for binding in self.names.bindings(node):
                busy = self._inference.busy
                if binding.how == "assign" and isinstance(binding.value, (ast.Call, ast.Name)) and id(binding) not in busy:
                    busy.add(id(binding))
                    try:
                        found = self.class_of_instance(binding.value)
                    finally:
                        busy.discard(id(binding))
                    if found:
                        return found
        return None

    def kind_of_class(self, cls: ast.ClassDef, owner: Values, depth: int = 0) -> Kind:
        """MODULE, OPTIMIZER, ... for a class of the project, by its bases; OTHER when all are known to be none of these."""
        unknown = False
        for base in cls.bases:
            if last_name(base) in {"Module", "LightningModule"}:
                return Kind.MODULE
            for name in owner.names.qualified(base):
                if name.startswith("torch.nn.") or name in MODULE_BASES or name.endswith(("PreTrainedModel", "ModelMixin")):
                    return Kind.MODULE
                if name.startswith("torch.optim.lr_scheduler"):
                    return Kind.SCHEDULER
                if name.startswith("torch.optim"):
                    return Kind.OPTIMIZER
                if name.startswith("torch.utils.data.") and name.endswith("DataLoader"):
                    return Kind.LOADER
            definition = owner.class_of_name(base)
            if definition and depth < 5 and definition[0] is not cls:
                found = definition[1].kind_of_class(*definition, depth + 1)
                if found != Kind.OTHER:
                    return found
            elif last_name(base) not in PLAIN_BASES:
                unknown = True
        return Kind.UNKNOWN if unknown else Kind.OTHER


# -- helpers on syntax


def is_device_string(value: str) -> bool:
    return bool(re.fullmatch(r"(cuda|xla)(:\d*)?|cpu", value))


def starts_device_name(node: ast.expr) -> bool:
    value = constant(node)
    return isinstance(value, str) and re.match(r"(cuda|xla)(:|$)", value) is not None


def constant(node: ast.AST | None):
    return node.value if isinstance(node, ast.Constant) else None


def last_name(node: ast.AST | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@lru_cache(maxsize=8192)
def guess_by_name(name: str) -> Kind:
    return next((kind for pattern, kind in GUESSES if pattern.search(name)), Kind.UNKNOWN)


def builtin_name(func: ast.expr) -> tuple[str, ...]:
    return (func.id,) if isinstance(func, ast.Name) and func.id in CALLS else ()


def is_environment(node: ast.expr, names: Names) -> bool:
    return "os.environ" in names.qualified(node)


def reaching(bindings: list[Binding], use: ast.AST) -> list[Binding]:
    """Bindings that may reach a use: in its own function, those before it, or all inside a loop.

    A binding in the same block as a statement around the use hides those before it.
    """
    if len(bindings) < 2 or enclosing_function(bindings[0].node) is not enclosing_function(use):
        return bindings
    before = [binding for binding in bindings if getattr(binding.node, "lineno", 0) <= use.lineno]
    if not before:
        return bindings
    around = set(map(id, chain_of(use)))
    for index in range(len(before) - 1, -1, -1):
        parent = getattr(before[index].node, "parent", None)
        if before[index].how == "assign" and id(parent) in around and before[index].node.end_lineno < use.lineno:
            later = [b for b in bindings if b not in before and shares_loop(b.node, use)]
            return before[index:] + later
    return before + [b for b in bindings if b not in before and shares_loop(b.node, use)]


def chain_of(node: ast.AST) -> Iterator[ast.AST]:
    while node is not None:
        yield node
        node = getattr(node, "parent", None)


def shares_loop(first: ast.AST, second: ast.AST) -> bool:
    loops = {id(node) for node in chain_of(first) if isinstance(node, (ast.For, ast.While))}
    return any(id(node) in loops for node in chain_of(second))


def default_of(function: ast.AST, parameter: ast.arg) -> ast.expr | None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if parameter in positional:
        index = positional.index(parameter) - (len(positional) - len(arguments.defaults))
        return arguments.defaults[index] if index >= 0 else None
    if parameter in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(parameter)]
    return None


def argument_for(function: ast.AST, parameter: ast.arg, call: ast.Call, is_method: bool) -> ast.expr | None:
    """The expression a call passes for a parameter; None when it passes none or cannot be told."""
    for keyword in call.keywords:
        if keyword.arg == parameter.arg:
            return keyword.value
    positional = [*function.args.posonlyargs, *function.args.args]
    if parameter not in positional or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    index = positional.index(parameter) - (1 if is_method else 0)
    return call.args[index] if 0 <= index < len(call.args) else None


def returned(function: ast.AST) -> Iterator[ast.expr]:
    for node in own_statements(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def attributes_by_class(facts: ModuleFacts) -> dict[ast.ClassDef, dict[str, list[ast.expr]]]:
    """What is assigned to attributes below each class, in the order of the text."""
    tables: dict[ast.ClassDef, dict[str, list[ast.expr]]] = {cls: {} for cls in facts.of(ast.ClassDef)}
    for node in facts.of(ast.Assign, ast.AnnAssign) if tables else ():
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        in_class_body = node.parent.__class__ is ast.ClassDef
        if node.value is None or not (in_class_body or any(isinstance(target, (ast.Attribute, ast.Tuple, ast.List)) for target in targets)):
            continue
        for owner in ancestors(node):
            if owner.__class__ is ast.ClassDef:
                for target in targets:
                    for name, value in attribute_targets(target, node.value, node.parent is owner):
                        tables[owner].setdefault(name, []).append(value)
    return tables


def attribute_targets(target: ast.expr, value: ast.expr, in_class_body: bool):
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in {"self", "cls"}:
        yield target.attr, value
    elif in_class_body and isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for element, part in zip(target.elts, value.elts):
            yield from attribute_targets(element, part, in_class_body)


def position_in_target(node: ast.AST, name: str) -> int | None:
    targets = node.targets if isinstance(node, ast.Assign) else []
    for target in targets:
        index = position_in_target_node(target, name)
        if index is not None:
            return index
    return None


def position_in_target_node(target: ast.expr, name: str) -> int | None:
    for index, element in enumerate(getattr(target, "elts", ())):
        if last_name(element) == name:
            return index
    return None


def destination_of(call: ast.Call) -> str:
    """The attribute `parse_args` fills for an `add_argument` call."""
    for keyword in call.keywords:
        if keyword.arg == "dest":
            return str(constant(keyword.value))
    flags = [str(constant(arg)) for arg in call.args]
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return long.lstrip("-").replace("-", "_")
