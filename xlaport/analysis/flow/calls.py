"""What calls give, and the events they cause: torch's functions and methods, builtins, functions of the file."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlaport.analysis.flow import ops
from xlaport.analysis.flow.events import Kind
from xlaport.analysis.flow.traces import HOOKS
from xlaport.analysis.flow.value import (
    DEVICE, NONE, OTHER, UNKNOWN, Change, Place, Sort, Value, element_of, join, join_all, number, sequence, tensor, text,
)
from xlaport.analysis.values import Kind as ValueKind
from xlaport.analysis.values import last_name
from xlaport.findings import Effect

if TYPE_CHECKING:
    from xlaport.analysis.flow.interpret import Environment, Interpreter

RANDOM = frozenset({"rand", "randn", "randint", "randperm", "normal"})
LAYERS = ("torch.nn.", "torchvision.models.", "timm.", "transformers.")


@dataclass(frozen=True)
class Given:
    """The arguments of one call."""

    call: ast.Call
    positional: tuple[Value, ...]
    keywords: dict[str, Value]

    @property
    def values(self) -> list[Value]:
        return [*self.positional, *self.keywords.values()]

    def get(self, keyword: str, position: int | None = None) -> Value | None:
        if keyword in self.keywords:
            return self.keywords[keyword]
        return self.positional[position] if position is not None and position < len(self.positional) else None


def call_of(run: Interpreter, node: ast.Call, env: Environment) -> Value:
    func = node.func
    given = arguments(run, node, env)
    qualified = run.names.qualified(func)
    if isinstance(func, ast.Name) and func.id in env and not (env[func.id].sort is Sort.UNKNOWN):
        return of_object(run, node, env[func.id], given, env)
    if qualified and not (isinstance(func, ast.Name) and func.id in run.globals and run.globals[func.id].node is not None):
        return of_name(run, node, qualified[0], given, env)
    if isinstance(func, ast.Name):
        if func.id in run.globals:
            return of_object(run, node, run.globals[func.id], given, env)
        if func.id in env:
            return called_by_name(run, node, given)
        return builtin(run, node, func.id, given, env)
    if isinstance(func, ast.Attribute):
        base = run.value(func.value, env)
        return of_method(run, node, base, func.attr, given, env)
    return of_object(run, node, run.value(func, env), given, env)


def arguments(run: Interpreter, node: ast.Call, env: Environment) -> Given:
    positional = []
    for argument in node.args:
        value = run.value(argument.value if isinstance(argument, ast.Starred) else argument, env)
        if isinstance(argument, ast.Starred):
            positional.extend(value.items or ())
        else:
            positional.append(value)
    keywords = {item.arg or "**": run.value(item.value, env) for item in node.keywords}
    return Given(node, tuple(positional), keywords)


# -- things of the file


def of_object(run: Interpreter, node: ast.Call, callee: Value, given: Given, env: Environment) -> Value:
    if callee.sort is Sort.FUNCTION and callee.node is not None:
        return follow(run, callee, given)
    if callee.sort is Sort.CLASS and isinstance(callee.node, ast.ClassDef):
        return instance_of(run, callee.node, given)
    if callee.sort is Sort.OBJECT and isinstance(callee.node, ast.ClassDef):
        return called_instance(run, callee, given)
    if callee.sort is Sort.MODULE:
        return applied(run, node, given, callee)
    if callee.qualified:
        return of_name(run, node, callee.qualified, given, env)
    return called_by_name(run, node, given)


def called_by_name(run: Interpreter, node: ast.Call, given: Given) -> Value:
    """A model of another file, or one that is only called so: `loss, logits = model(x, y)`."""
    if run.hot and ValueKind.MODULE in run.values.guess(node.func):
        return applied(run, node, given, Value(Sort.MODULE)).but(certain=False)
    return UNKNOWN


def follow(run: Interpreter, callee: Value, given: Given) -> Value:
    function = callee.node
    parameters = [*function.args.posonlyargs, *function.args.args]
    is_lambda = isinstance(function, ast.Lambda)
    environment = {parameter.arg: UNKNOWN for parameter in parameters} if is_lambda else run.defaults(function, hot=False)
    passed = list(given.positional)
    if callee.owner is not None and not is_static(function):
        passed.insert(0, callee.owner)
    environment |= {parameter.arg: value for parameter, value in zip(parameters, passed)}
    if function.args.vararg is not None:
        environment[function.args.vararg.arg] = sequence(join_all(passed[len(parameters):]))
    names = {parameter.arg for parameter in [*parameters, *function.args.kwonlyargs]}
    environment |= {name: value for name, value in given.keywords.items() if name in names}
    if function.args.kwarg is not None:
        environment.setdefault(function.args.kwarg.arg, Value(Sort.MAPPING, Place.HOST, True))
    return run.call_function(function, environment, run.closures.get(id(function)))


def is_static(function: ast.AST) -> bool:
    return any(getattr(item, "id", "") == "staticmethod" for item in getattr(function, "decorator_list", ()))


def instance_of(run: Interpreter, cls: ast.ClassDef, given: Given) -> Value:
    made = Value(Sort.OBJECT, certain=True, node=cls)
    init = run.classes.method_of(cls, "__init__")
    if init is not None:
        hot, run.hot = run.hot, False
        follow(run, Value(Sort.FUNCTION, node=init, owner=made), given)
        run.hot = hot
    else:
        keep_attributes(run, given)
    return made


def keep_attributes(run: Interpreter, given: Given) -> None:
    """Keywords that become attributes: of a dataclass, of a namespace."""
    for name, value in given.keywords.items():
        run.hold(name, value)


def called_instance(run: Interpreter, callee: Value, given: Given) -> Value:
    for name in ("forward", "__call__"):
        method = run.classes.method_of(callee.node, name)
        if method is not None:
            return follow(run, Value(Sort.FUNCTION, node=method, owner=callee), given)
    return UNKNOWN


def applied(run: Interpreter, node: ast.Call, given: Given, module: Value) -> Value:
    """A layer or model of torch called on tensors."""
    tensors = [value for value in given.positional if value.is_tensor]
    run.consume(node, *tensors)
    layer = module.qualified.rpartition(".")[2]
    lead = next((value for value in tensors if value.on_device), tensors[0] if tensors else None)
    place = lead.place if lead is not None else Place.UNKNOWN
    certain = bool(lead and lead.certain)
    where = ops.goes_to_host(f"torch.nn.{layer}", "", node, {}, None) if layer and place is not Place.HOST else ""
    if where and (where == "forward" or run.trains):
        run.record(Kind.HOST_OP, node, f"`{layer}`", (Effect.FALLBACK, Effect.SYNC), certain)
    if place is not Place.HOST and any(is_compared(given, *mask) for mask in ops.MASKS_COMPARED.get(layer, ())):
        run.record(Kind.HOST_READ, node, f"the mask of `{layer}`, compared with a causal one", (Effect.SYNC,), certain)
    result = tensor(place, certain, dtype="float", needs_grad=not run.without_grad, rank=lead.rank if lead is not None else None)
    if layer in {"LSTM", "GRU", "RNN", "MultiheadAttention"}:
        return sequence(None, (result, sequence(result)))
    return result


def is_compared(given: Given, mask: str, position: int, told: str) -> bool:
    """A mask of which the call does not say whether it is causal."""
    value = given.get(mask, position)
    return value is not None and value.sort is not Sort.NONE and (value.is_tensor or value.sort is Sort.UNKNOWN) and told not in given.keywords


# -- torch's functions


def of_name(run: Interpreter, node: ast.Call, name: str, given: Given, env: Environment) -> Value:
    root, _, last = name.rpartition(".")
    if name in {"types.SimpleNamespace", "argparse.Namespace"}:
        keep_attributes(run, given)
        return Value(Sort.OBJECT, certain=True)
    if name in {"torch.device", "torch_xla.device", "torch_xla.core.xla_model.xla_device"}:
        return DEVICE
    if name in {"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.autocast", "torch.manual_seed", "torch_xla.manual_seed"}:
        return OTHER
    if name.startswith("torch.distributions."):
        return distribution(run, node, last, given)
    if name == "torch.optim.lr_scheduler.ReduceLROnPlateau":
        return Value(Sort.OTHER, certain=True, qualified=name)
    if name.startswith("torch.optim."):
        return Value(Sort.OPTIMIZER, certain=True)
    if last == "GradScaler":
        off = given.get("enabled")
        return Value(Sort.SCALER, certain=True, constant=off.constant if off is not None else ())
    if name == "torch.utils.data.DataLoader" or last == "DataLoader":
        return Value(Sort.LOADER, certain=True)
    if last in {"MpDeviceLoader", "ParallelLoader"}:
        return Value(Sort.LOADER, certain=True, element=sequence(tensor(Place.DEVICE)))
    if name.startswith("torch.nn.functional."):
        return torch_function(run, node, name, last, given)
    if name.startswith("torch.nn.utils."):
        return nn_utility(run, node, last, given)
    if name in {"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.autograd.Variable"} and given.positional:
        return given.positional[0].but(needs_grad=True)
    if name.startswith("torch.nn.init."):
        return UNKNOWN
    if name.startswith(LAYERS) and last[:1].isupper():
        return Value(Sort.MODULE, Place.HOST, True, qualified=name)
    if name.startswith(("torch.fft.", "torch.linalg.", "torch.special.")):
        return torch_function(run, node, name, last, given)
    if name == "torch.load":
        return UNKNOWN
    if root == "torch":
        return torch_function(run, node, name, last, given)
    if name.startswith(("torch.", "torch_xla.")):
        if name in {"torch_xla.core.xla_model.optimizer_step", "torch_xla.sync", "torch_xla.core.xla_model.mark_step"}:
            return NONE
        if last == "checkpoint" and given.positional and given.positional[0].sort in {Sort.FUNCTION, Sort.OBJECT, Sort.MODULE}:
            return of_object(run, node, given.positional[0], Given(node, given.positional[1:], {}), env)
        return UNKNOWN
    if name.startswith(("random.", "numpy.random.")):
        return random_value(last, given)
    if name.startswith("math.") or name.startswith("operator."):
        for value in given.positional:
            if value.on_device:
                run.read(node, value, f"`{name}`")
        return number(max((v.change for v in given.values), default=Change.FIXED), "float")
    if name in {"time.time", "time.perf_counter", "time.monotonic"}:
        return number(Change.EACH_STEP, "float")
    if name.startswith("numpy."):
        return OTHER
    if name.startswith("logging."):
        return Value(Sort.OTHER, certain=True, qualified=name)
    if name in {"functools.partial"} and given.positional:
        return given.positional[0]
    if name in {"copy.deepcopy", "copy.copy"} and given.positional:
        return given.positional[0]
    if name in {"itertools.chain", "itertools.islice", "itertools.cycle"} and given.positional:
        return given.positional[0]
    if last in {"tqdm", "trange"} and given.positional:
        return given.positional[0]
    return UNKNOWN


def random_value(last: str, given: Given) -> Value:
    if last in {"choice", "sample", "choices"} and given.positional:
        element = element_of(given.positional[0])
        return element.but(change=Change.EACH_STEP, constant=()) if last == "choice" else given.positional[0]
    if last in {"seed", "shuffle"}:
        return NONE
    return number(Change.EACH_STEP, "int" if last in {"randint", "randrange", "getrandbits"} else "float")


def nn_utility(run: Interpreter, node: ast.Call, last: str, given: Given) -> Value:
    if last in {"clip_grad_norm_", "clip_grad_value_"}:
        flag = given.get("error_if_nonfinite", 3)
        if flag is not None and flag.constant == (True,):
            run.record(Kind.HOST_READ, node, "`error_if_nonfinite=True`", (Effect.SYNC,), True)
        return tensor(Place.DEVICE, certain=False, rank=0, dtype="float")
    if last == "pad_sequence" and given.positional:
        element = element_of(given.positional[0])
        return element.but(sort=Sort.TENSOR, rank=None) if element.is_tensor else UNKNOWN
    if last in {"weight_norm", "spectral_norm"} and given.positional:
        return given.positional[0]
    return UNKNOWN


def distribution(run: Interpreter, node: ast.Call, last: str, given: Given) -> Value:
    checks = given.get("validate_args")
    tensors = [value for value in given.values if value.on_device]
    off = checks is not None and checks.constant == (False,)
    if tensors and not off:
        run.read(node, tensors[0], f"the argument check of `{last}`")
    place = tensors[0].place if tensors else Place.HOST
    return Value(Sort.DISTRIBUTION, place, bool(tensors) and tensors[0].certain, qualified=last, constant=(off,))


def torch_function(run: Interpreter, node: ast.Call, name: str, last: str, given: Given) -> Value:
    """`torch.f(x, ...)`: a factory, or the method `x.f(...)` written as a function."""
    if last in ops.FACTORIES and name.startswith("torch.") and name.count(".") == 1:
        return factory(run, node, last, given)
    if last in {"is_tensor", "is_grad_enabled", "is_floating_point", "numel", "promote_types", "result_type", "is_complex"}:
        return number()
    first = given.get("input", 0)
    if first is None and given.keywords:
        first = next((value for value in given.keywords.values() if value.is_tensor), None)
    lead = first
    if first is not None and first.sort is Sort.SEQUENCE:
        lead = element_of(first)
    others = [value for value in given.values if value.is_tensor]
    if lead is None or not lead.is_tensor:
        lead = next((value for value in others if value.on_device), others[0] if others else None)
    rest = Given(node, given.positional[1:], given.keywords)
    if lead is None:
        if last in ops.FACTORIES or last.endswith("_like"):
            return factory(run, node, last, given)
        return UNKNOWN
    if last in {"cat", "stack", "concat", "hstack", "vstack"} and first is not None:
        return joined(run, node, last, first, lead)
    if last in {"pow", "float_power"} and first is not None and first.sort is Sort.NUMBER and len(given.positional) > 1:
        return run.operate(node, ast.Pow(), first, given.positional[1])
    if last == "where" and len(given.values) > 1:
        return run.elementwise(node, given.values, "")
    return operation(run, node, lead, last, rest, function=name, tensors=others)


def joined(run: Interpreter, node: ast.Call, last: str, parts: Value, lead: Value) -> Value:
    run.consume(node, lead)
    if parts.change is Change.EACH_STEP and lead.on_device:
        run.record(Kind.CHANGING_SHAPE, node, "a list that grows from step to step", (Effect.RECOMPILE,), False)
    rank = lead.rank if lead.rank is None or last != "stack" else lead.rank + 1
    return lead.but(origin=None, rank=rank, ragged=lead.ragged if lead.place is Place.HOST else Change.FIXED)


def factory(run: Interpreter, node: ast.Call, last: str, given: Given) -> Value:
    device = given.keywords.get("device")
    place = Place.HOST if device is None or device.constant == ("cpu",) else Place.DEVICE
    certain = device is None or device.sort in {Sort.DEVICE, Sort.TEXT}
    like = next((value for value in given.positional if value.is_tensor), None)
    if last.endswith("_like"):
        if like is None:
            return UNKNOWN
        run.consume(node, like)
        return like.but(origin=None, dtype=dtype_of(node) or like.dtype, place=place if device is not None else like.place, needs_grad=False, ragged=like.ragged if like.place is Place.HOST else Change.FIXED)
    dtype = dtype_of(node) or ("int" if last in {"randint", "randperm", "tril_indices", "triu_indices"} else "float" if last in {"rand", "randn", "zeros", "ones", "linspace", "empty", "normal"} else "")
    sizes = given.positional if last in ops.SHAPED else ()
    flat = [inner for value in sizes for inner in (value.items or (value,))]
    if last == "arange":
        dtype = dtype or "int"
    on_device = [value for value in flat if value.on_device]
    if on_device:
        run.read(node, on_device[0], f"a size or bound of `{last}` that is a tensor", effects=(Effect.SYNC, Effect.RECOMPILE))
    shaping = flat[2:] if last in {"linspace", "logspace"} else flat
    changes = max((value.change for value in shaping if value.sort is not Sort.TENSOR), default=Change.FIXED) if last in ops.SHAPED else Change.FIXED
    if last in {"full", "randint"} and given.positional:
        shape = given.get("size", 0 if last == "full" else None)
        shape = shape if shape is not None else next((v for v in given.positional if v.sort is Sort.SEQUENCE), None)
        changes = max((value.change for value in (shape.items or (shape,))), default=Change.FIXED) if shape is not None else Change.FIXED
    certainly = all(value.certain for value in flat)
    if changes is Change.EACH_STEP and place is Place.DEVICE:
        run.record(Kind.CHANGING_CONSTANT, node, f"a size of `{last}`", (Effect.RECOMPILE,), certainly)
        changes = Change.FIXED
    if last in {"tril_indices", "triu_indices", "logspace"} and place is Place.DEVICE:
        run.record(Kind.HOST_OP, node, f"`torch.{last}`", (Effect.FALLBACK, Effect.SYNC), True)
    if changes is Change.FEW and not run.hot:
        changes = Change.EACH_STEP  # data of several lengths, made beforehand
    rank = shape_rank(last, given)
    content = max((value.change for value in given.values), default=Change.FIXED)
    if last in RANDOM and run.hot:
        content = Change.EACH_STEP
    source = element_of(given.positional[0]) if given.positional and last in {"tensor", "as_tensor"} else None
    if last in {"tensor", "as_tensor", "from_numpy"}:
        if source is not None and source.is_tensor and source.on_device or like is not None and like.on_device and last == "tensor":
            run.read(node, source if source is not None and source.is_tensor else like, f"`torch.{last}` of tensors")
        if last == "as_tensor" and like is not None:
            return like
        held = given.positional[0] if given.positional else UNKNOWN
        dtype = dtype or (held.dtype if held.sort is Sort.NUMBER else source.dtype if source is not None else "")
        rank = 0 if held.sort is Sort.NUMBER else 1 if source is not None and source.sort is Sort.NUMBER and held.sort is Sort.SEQUENCE else None
    grad = given.keywords.get("requires_grad")
    return tensor(place, certain, dtype=dtype, rank=rank, ragged=changes, change=content if place is Place.HOST else Change.FIXED, needs_grad=grad is not None and grad.constant == (True,))


def shape_rank(last: str, given: Given) -> int | None:
    if last in {"arange", "linspace", "randperm", "logspace"}:
        return 1
    if last in {"eye", "tril_indices", "triu_indices"}:
        return 2
    if last in {"zeros", "ones", "rand", "randn", "empty"}:
        if len(given.positional) == 1 and given.positional[0].sort in {Sort.SEQUENCE}:
            return len(given.positional[0].items) if given.positional[0].items is not None else None
        if any(value.sort in {Sort.SHAPE, Sort.UNKNOWN, Sort.OTHER} for value in given.positional):
            return None
        return len(given.positional)
    if last == "full" and given.positional and given.positional[0].items is not None:
        return len(given.positional[0].items)
    return None


def dtype_of(node: ast.Call) -> str:
    for item in node.keywords:
        if item.arg == "dtype":
            written = ast.unparse(item.value)
            return "bool" if written.endswith("bool") else "int" if "int" in written or written.endswith("long") else "float"
    return ""


# -- operations on tensors


def operation(run: Interpreter, node: ast.Call, base: Value, last: str, given: Given, function: str, tensors: list[Value]) -> Value:
    """One op of torch with its tensor first. `given` is without it."""
    name = last.rstrip("_") if not last.startswith("__") else last
    everything = [base, *[value for value in tensors if value is not base]]
    device = [value for value in everything if value.place is Place.DEVICE] or [value for value in everything if value.on_device]
    if not device:
        return on_host(base, name, given)
    lead = device[0]
    certain = lead.certain and lead.place is Place.DEVICE
    shown = f"`{function}`" if function else f"`.{last}()`"
    if name in ops.READS or function == "torch.is_nonzero":
        run.read(node, lead, shown, Kind.HOST_READ)
        return number(Change.EACH_STEP, lead.dtype) if name != "tolist" else sequence(number(Change.EACH_STEP), change=Change.EACH_STEP)
    if name in {"equal", "allclose"}:
        effects = (Effect.FALLBACK, Effect.SYNC) if name == "equal" else (Effect.SYNC,)
        run.record(Kind.HOST_OP if name == "equal" else Kind.HOST_READ, node, shown, effects, certain)
        return number(Change.EACH_STEP, "bool")
    run.consume(node, *everything)
    effect = ops.goes_wrong(name, lead.rank, given.get("dim1", 1), given.get("dim2", 2))
    if effect is not None:
        run.record(Kind.WRONG_SHAPE, node, shown, (effect,), certain)
    facts = {**{position: constant_of(value) for position, value in enumerate(given.positional)}, **{key: constant_of(value) for key, value in given.keywords.items()}}
    facts["arguments"] = len(node.args)
    where = ops.goes_to_host(function, name if name in ops.SPECIAL else last, node, facts, lead.rank)
    needs_grad = any(value.needs_grad for value in everything) and not run.without_grad
    if where == "forward" or where == "backward" and needs_grad:
        run.record(Kind.HOST_OP, node, shown if where == "forward" else f"the backward pass of {shown}", (Effect.FALLBACK, Effect.SYNC), certain)
    if where == "reads":
        run.record(Kind.HOST_READ, node, shown, (Effect.SYNC,), certain)
    if function in ops.READ_CHECKS or name == "inverse":
        run.record(Kind.HOST_READ, node, f"the error check of {shown}", (Effect.SYNC,), certain)
    if name == "one_hot" and given.get("num_classes", 0) is None:
        run.record(Kind.HOST_READ, node, "`one_hot` without `num_classes`", (Effect.SYNC,), certain)
    positions(run, node, name, given, certain)
    return result_of(node, lead, name, given, facts, needs_grad)


def constant_of(value: Value):
    if value.is_tensor:
        return ops.TENSOR
    if value.qualified.startswith("torch."):
        return ops.DTYPE
    return value.constant[0] if value.constant else ...


def positions(run: Interpreter, node: ast.Call, name: str, given: Given, certain: bool) -> None:
    """Arguments that are constants of the graph, and change."""
    wanted = [given.positional[at] for at in ops.POSITION_ARGUMENTS.get(name, ()) if at < len(given.positional)]
    for key, value in given.keywords.items():
        only = ops.POSITION_KEYWORD_OF.get(key)
        if key in ops.POSITION_KEYWORDS and (only is None or name in only):
            wanted.append(value)
    for value in wanted:
        for inner in value.items or (value,):
            if inner.sort is Sort.NUMBER and inner.change is Change.EACH_STEP:
                run.record(Kind.CHANGING_CONSTANT, node, f"an argument of `{name}`", (Effect.RECOMPILE,), certain and inner.certain)
                return
            if inner.on_device and name not in ops.TENSOR_ARGUMENT_OK and name in {"new_zeros", "new_ones", "new_empty", "new_full", "view", "reshape", "expand", "repeat", "roll", "tril", "triu", "narrow", "topk"}:
                run.read(node, inner, f"an argument of `{name}` that is a tensor", effects=(Effect.SYNC, Effect.RECOMPILE))
                return


def on_host(base: Value, name: str, given: Given) -> Value:
    """The same on the CPU: no events; what it holds changes as it did."""
    if name in ops.READS:
        return number(base.change) if name != "tolist" else sequence(number(base.change), change=base.change)
    if name in {"equal", "allclose"}:
        return number(base.change)
    change = max([base.change, *(value.change for value in given.values)])
    if name in {"bool", *ops.BOOLEAN}:
        return base.but(dtype="bool", change=change)
    ragged = base.ragged
    if name in ops.DATA_SHAPED:
        ragged = Change.EACH_STEP
    if name == "pad" and base.ragged is Change.EACH_STEP:
        ragged = Change.FEW  # by a length that depends on the batch's own: to a fixed one, or to one of a few
    rank = rank_after(base, name, given)
    return base.but(change=change, ragged=ragged, rank=rank)


def result_of(node: ast.Call, lead: Value, name: str, given: Given, facts: dict, needs_grad: bool) -> Value:
    dtype = "bool" if name in ops.BOOLEAN else "int" if name in ops.INTEGER or name in {"nonzero", "argwhere", "where"} and facts["arguments"] <= 1 else "float" if name in {"float", "half", "double", "bfloat16", "softmax", "sigmoid", "mean", "log_softmax"} else lead.dtype
    result = lead.but(dtype=dtype, origin=None, ragged=Change.FIXED, needs_grad=needs_grad and dtype not in {"bool", "int"}, rank=rank_after(lead, name, given))
    if name in ops.DATA_SHAPED or name == "where" and facts["arguments"] == 1 or name == "repeat_interleave" and facts.get(0, facts.get("repeats")) is ops.TENSOR and "output_size" not in facts:
        fixed = name == "bincount" and "minlength" in facts
        result = result.but(ragged=Change.FIXED if fixed else Change.EACH_STEP, origin=node, rank=None)
        if name == "bincount" and not fixed:
            result = result.but(rank=1)
        if name == "argwhere":
            result = result.but(rank=2)
    if name == "where" and facts["arguments"] == 1:
        return sequence(result)
    if name in {"split", "chunk", "unbind", "meshgrid"}:
        return sequence(result.but(rank=result.rank - 1 if name == "unbind" and result.rank else result.rank))
    return result  # of a named tuple too: its fields and parts are tensors as it is


def rank_after(base: Value, name: str, given: Given) -> int | None:
    rank = base.rank
    if name in ops.REDUCTIONS:
        dims = given.get("dim", 0)
        if dims is None or dims.sort is Sort.NONE:
            return 0
        keep = given.get("keepdim", 1)
        if keep is not None and keep.constant == (True,):
            return rank
        if dims.sort is Sort.NUMBER and rank is not None:
            return max(rank - 1, 0)
        return None
    if name == "unsqueeze":
        return rank + 1 if rank is not None else None
    if name in {"view", "reshape"}:
        if given.positional and all(value.sort is Sort.NUMBER for value in given.positional):
            return len(given.positional)
        return None
    if name == "flatten":
        return 1 if not given.values else None
    if name in {"squeeze", "matmul", "mm", "bmm", "expand", "repeat", "gather", "index_select", "einsum", "dot", "mv", "select", "diagonal", "item", "unfold", "embedding", "one_hot", "argwhere", "nonzero"}:
        return {"mm": 2, "bmm": 3, "dot": 0, "mv": 1}.get(name, rank if name in {"gather", "index_select"} else None)
    if name.endswith("_loss") or name in {"cross_entropy", "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits"}:
        reduction = given.get("reduction")
        return 0 if reduction is None or reduction.constant != ("none",) else None
    return rank


# -- methods


def of_method(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given, env: Environment) -> Value:
    if base.is_tensor:
        return tensor_method(run, node, base, name, given)
    if base.sort is Sort.OBJECT and isinstance(base.node, ast.ClassDef):
        found = object_method(run, node, base, name, given)
        if found is not None:
            return found
    if name in HOOKS and given.positional and given.positional[-1].node is not None:
        hook(run, node, given.positional[-1])
        return OTHER
    if name == "apply" and base.sort is Sort.CLASS:
        return function_apply(run, base, given)
    if base.qualified.endswith("ReduceLROnPlateau") and name == "step" and given.positional and given.positional[0].on_device:
        run.read(node, given.positional[0], "`ReduceLROnPlateau.step`, which compares numbers")
        return NONE
    if base.sort is Sort.OTHER and not base.qualified:
        return OTHER  # a NumPy array's methods give arrays and numbers
    if base.sort is Sort.SCALER:
        if name == "step" and base.constant != (False,):
            run.record(Kind.HOST_READ, node, "`GradScaler.step`", (Effect.SYNC,), True)
        return given.positional[0] if name == "scale" and given.positional else NONE
    if base.sort is Sort.DISTRIBUTION:
        return distribution_method(run, node, base, name, given)
    if base.sort is Sort.SEQUENCE:
        return sequence_method(run, node, base, name, given, env)
    if base.sort is Sort.MAPPING:
        return mapping_method(base, name)
    if base.sort is Sort.TEXT:
        if name in {"format", "join"}:
            for value in given.values:
                run.printed(node, value, f"`str.{name}`")
        return text(max([base.change, *(v.change for v in given.values)]))
    if base.sort in {Sort.MODULE, Sort.OBJECT} and name in {"to", "cuda", "train", "eval", "requires_grad_", "float", "half", "double"}:
        return base
    if base.sort is Sort.SHAPE:
        return number(base.ragged)
    if name in {"info", "debug", "warning", "error", "critical", "exception", "log"} and is_logger(node, base):
        if name != "debug":
            for value in given.positional:
                run.printed(node, value, "a log message")
        return NONE
    if name in {"add_scalar", "add_scalars", "log_metrics", "log", "update"} and base.sort is Sort.UNKNOWN:
        return UNKNOWN
    if name in run.attributes and run.attributes[name].sort in {Sort.MODULE, Sort.FUNCTION, Sort.OBJECT}:
        return of_object(run, node, run.attributes[name], given, env)
    if name in {"state_dict"}:
        where = Place.DEVICE if base.sort in {Sort.MODULE, Sort.OBJECT} else Place.UNKNOWN
        return Value(Sort.MAPPING, Place.HOST, True, element=tensor(where, certain=base.sort is Sort.MODULE))
    if name in {"parameters", "buffers"}:
        return sequence(tensor(Place.DEVICE, certain=False, needs_grad=True))
    if name in {"named_parameters", "named_buffers"}:
        return sequence(sequence(None, (text(), tensor(Place.DEVICE, certain=False, needs_grad=True))))
    if name == "get" and given.positional:
        return UNKNOWN
    if name == "item" and not given.values and base.sort in {Sort.UNKNOWN, Sort.OBJECT, Sort.NUMBER} and (run.hot or run.is_cold(node)):
        return tensor_method(run, node, tensor(Place.UNKNOWN, certain=False), name, given)  # a sum that began as a number, too
    if name == "cpu" and not given.values and base.sort in {Sort.UNKNOWN, Sort.OBJECT} and run.hot:
        return tensor_method(run, node, tensor(Place.UNKNOWN, certain=False), name, given)
    if name in {"to", "cuda"} and run.hot and base.sort is Sort.UNKNOWN and (name == "cuda" or any(value.sort is Sort.DEVICE for value in given.values)):
        return tensor(Place.DEVICE, certain=False)  # a batch, most likely: modules move before the loop
    return called_by_name(run, node, given)


def hook(run: Interpreter, node: ast.Call, callee: Value) -> None:
    """A function that runs in each forward or backward pass from now on."""
    function = callee.node
    parameters = [] if isinstance(function, ast.Lambda) else [*function.args.posonlyargs, *function.args.args]
    made = tensor(Place.DEVICE)
    values = [OTHER] * max(len(parameters) - 1, 0) + [made]
    hot, run.hot = run.hot, True
    follow(run, callee, Given(node, tuple(values), {}))
    run.hot = hot


def is_logger(node: ast.Call, base: Value) -> bool:
    return base.qualified.startswith("logging") or last_name(node.func.value).lower().lstrip("_") in {"log", "logger", "logging"}


def object_method(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given) -> Value | None:
    method = run.classes.method_of(base.node, name)
    if method is not None:
        return follow(run, Value(Sort.FUNCTION, node=method, owner=base), given)
    held = run.inherited(base, name) or run.attributes.get(name, UNKNOWN)
    if held.sort in {Sort.MODULE, Sort.OBJECT, Sort.FUNCTION, Sort.CLASS}:
        return of_object(run, node, held, given, {})
    return None


def function_apply(run: Interpreter, cls: Value, given: Given) -> Value:
    forward = run.classes.method_of(cls.node, "forward") if isinstance(cls.node, ast.ClassDef) else None
    if forward is None:
        return next((value for value in given.positional if value.is_tensor), UNKNOWN)
    return follow(run, Value(Sort.FUNCTION, node=forward), Given(given.call, (OTHER, *given.positional), given.keywords))


def tensor_method(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given) -> Value:
    if name in ops.METADATA:
        if name in {"size", "stride"} and not given.values:
            return Value(Sort.SHAPE, Place.HOST, True, ragged=base.ragged)
        return number(base.ragged if name in {"size", "numel", "nelement"} else Change.FIXED)
    if name == "backward":
        run.consume(node, base)
        return NONE
    if name in {"cpu", "to", "cuda", "numpy", "type"}:
        return moved(run, node, base, name, given)
    if name in {"detach", "detach_"}:
        return base.but(needs_grad=False)
    if name in {"clone", "contiguous", "requires_grad_", "retain_grad", "register_hook", "share_memory_", "pin_memory"}:
        if name == "requires_grad_":
            return base.but(needs_grad=True)
        return base
    if name == "values" or name == "indices":
        return base
    others = [value for value in given.values if value.is_tensor]
    return operation(run, node, base, name, given, function="", tensors=others)


def moved(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given) -> Value:
    target = given.get("device", 0)
    to_host = name == "cpu" or name == "to" and target is not None and target.constant == ("cpu",)
    if name == "numpy":
        return OTHER
    if to_host:
        if base.on_device:
            run.read(node, base, "`.cpu()`" if name == "cpu" else '`.to("cpu")`')
        return base.but(place=Place.HOST, change=Change.EACH_STEP if base.on_device else base.change, origin=None)
    if name == "cuda" or target is not None and (target.sort in {Sort.DEVICE, Sort.TEXT} or target.sort is Sort.UNKNOWN and not target.qualified.startswith("torch.")):
        if base.place is Place.DEVICE:
            return base
        return base.but(place=Place.DEVICE, certain=True, change=Change.FIXED, origin=None)
    if target is not None and target.is_tensor:
        return base.but(place=target.place)
    written = target.qualified.rpartition(".")[2] if target is not None else ""
    dtype = "bool" if written == "bool" else "int" if "int" in written or written == "long" else "float" if written else base.dtype
    return base.but(dtype=dtype)


def distribution_method(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given) -> Value:
    if name in {"log_prob", "cdf", "icdf"} and base.constant != (True,) and base.place is not Place.HOST:
        run.record(Kind.HOST_READ, node, f"the argument check of `{name}`", (Effect.SYNC,), base.certain and base.place is Place.DEVICE)
    if name in {"sample", "rsample"} and base.qualified in {"Gamma", "Beta", "Dirichlet", "Chi2", "StudentT", "Poisson", "Binomial"} and base.place is not Place.HOST:
        run.record(Kind.HOST_OP, node, f"`{base.qualified}.{name}`", (Effect.FALLBACK, Effect.SYNC), base.certain)
    return tensor(base.place, base.certain, dtype="float")


def sequence_method(run: Interpreter, node: ast.Call, base: Value, name: str, given: Given, env: Environment) -> Value:
    if name in {"append", "add", "insert", "appendleft"} and given.positional:
        element = join(element_of(base) if base.element or base.items else None, given.positional[-1])
        persistent = isinstance(node.func.value, ast.Attribute) and run.hot
        grown = Value(Sort.SEQUENCE, Place.HOST, True, element=element, change=Change.EACH_STEP if persistent else base.change)
        rebind(run, node.func.value, grown, env)
        return NONE
    if name == "extend" and given.positional:
        grown = sequence(join(element_of(base), element_of(given.positional[0])))
        rebind(run, node.func.value, grown, env)
        return NONE
    if name in {"index", "count", "remove"} and given.positional:
        if element_of(base).on_device or given.positional[0].on_device:
            run.read(node, element_of(base) if element_of(base).on_device else given.positional[0], f"`list.{name}` compares tensors")
        return number()
    if name == "sort" and element_of(base).on_device:
        run.read(node, element_of(base), "`list.sort`")
    if name in {"pop", "popleft"}:
        return element_of(base)
    return UNKNOWN


def rebind(run: Interpreter, target: ast.expr, grown: Value, env: Environment) -> None:
    if isinstance(target, (ast.Name, ast.Attribute)):
        run.bind(target, grown, env)


def mapping_method(base: Value, name: str) -> Value:
    element = base.element or UNKNOWN
    if name == "items":
        return sequence(sequence(None, (text(), element)))
    if name == "values":
        return sequence(element)
    if name in {"get", "pop", "setdefault"}:
        return element
    if name == "keys":
        return sequence(text())
    return UNKNOWN


# -- builtins


def builtin(run: Interpreter, node: ast.Call, name: str, given: Given, env: Environment) -> Value:
    values = given.positional
    change = max((value.change for value in given.values), default=Change.FIXED)
    if name in ops.HOST_BUILTINS:
        for value in values:
            inner = value if value.is_tensor else element_of(value) if name in {"min", "max", "sorted", "any", "all", "print", "str", "repr"} and value.sort in {Sort.SEQUENCE, Sort.MAPPING} else value
            if not inner.on_device or name in {"hash"}:
                continue
            if name in {"min", "max", "sorted"} and not value.is_tensor and len(values) == 1 and value.items is not None and len(value.items) == 1:
                continue
            reorders = name in {"min", "sorted"} or name == "max" and value.is_tensor and len(values) == 1
            picks = reorders and len(values) == 1
            effects = (Effect.SYNC, Effect.RECOMPILE) if picks or name == "range" else (Effect.SYNC,)
            run.read(node, inner, f"`{name}()`", Kind.HOST_READ, effects)
            change = Change.EACH_STEP
    if name in {"float", "int", "bool", "round"}:
        dtype = {"float": "float", "bool": "bool"}.get(name, "int")
        return number(change, dtype)
    if name in {"len"}:
        return number(values[0].ragged if values and values[0].is_tensor else values[0].change if values else Change.FIXED)
    if name in {"min", "max", "sum", "abs", "pow"}:
        return folded(run, node, name, values, change)
    if name in {"str", "repr", "format"}:
        for value in values:
            if value.sort is Sort.OBJECT:
                run.printed(node, value, f"`{name}()`")
        return text(change)
    if name in {"sorted", "list", "tuple", "reversed", "set"}:
        held = values[0] if values else None
        if held is None:
            return sequence(None)
        return held if held.sort is Sort.SEQUENCE else sequence(run.row_of(held) if held.is_tensor else element_of(held))
    if name in {"dict"}:
        return Value(Sort.MAPPING, Place.HOST, True, element=next(iter(given.keywords.values()), None))
    if name in {"range", "enumerate", "zip", "map", "filter"}:
        if name == "range":
            return sequence(number(change), change=change)
        if name == "enumerate" and values:
            return sequence(sequence(None, (number(), run.row_of(values[0]) if values[0].is_tensor else element_of(values[0]))))
        if name == "zip":
            return sequence(sequence(None, tuple(run.row_of(v) if v.is_tensor else element_of(v) for v in values)))
        if name == "map" and len(values) > 1 and values[0].node is not None:
            return sequence(of_object(run, node, values[0], Given(node, (element_of(values[1]),), {}), env))
        return sequence(element_of(values[-1])) if values else UNKNOWN
    if name in {"any", "all"}:
        return number(change, "bool")
    if name in {"isinstance", "hasattr", "callable", "id", "issubclass"}:
        return number(dtype="bool")
    if name == "print":
        return NONE
    if name == "getattr" and len(values) >= 2 and values[1].constant:
        return run.attributes.get(values[1].constant[0], UNKNOWN)
    if name in {"next", "iter"} and values:
        return element_of(values[0]) if name == "next" else values[0]
    return UNKNOWN


def folded(run: Interpreter, node: ast.Call, name: str, values: tuple[Value, ...], change: Change) -> Value:
    tensors = [value for value in values if value.is_tensor]
    if name == "sum" and values and values[0].sort is Sort.SEQUENCE and element_of(values[0]).is_tensor:
        return run.elementwise(node, [element_of(values[0])], "")
    if name in {"min", "max"} and values and values[0].sort is Sort.SEQUENCE and element_of(values[0]).is_tensor:
        return element_of(values[0])
    if tensors:
        if name == "pow" and len(values) > 1:
            return run.operate(node, ast.Pow(), values[0], values[1])
        result = run.elementwise(node, tensors, tensors[0].dtype)
        return result.but(rank=None if name != "abs" else tensors[0].rank)
    return number(change, values[0].dtype if values else "int")
