"""Environment variables that only CUDA, cuDNN or NCCL read."""

import ast
import re

from xlaport.ruleset.api import Context, Danger, Grade, Severity, syntax

VARIABLE = re.compile(
    r"(CUDA|NCCL|TORCH_NCCL|CUDNN|CUBLAS|CUBLASLT|NVIDIA|NVTE|PYTORCH_CUDA|TORCH_CUDA|TORCH_CUDNN|TORCH_CUBLAS)_\w+"
    r"|PYTORCH_NO_CUDA_MEMORY_CACHING|PYTORCH_NVML_BASED_CUDA_CHECK|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|DISABLE_ADDMM_CUDA_LT"
)
"""Names that NVIDIA's libraries and torch's CUDA parts read; others with these words are the program's own."""

TORCH = re.compile(r"torch")
SETTERS = {"os.environ.setdefault", "os.putenv", "os.environ.pop", "os.unsetenv", "os.environ.__setitem__"}
READERS = {"os.environ.get", "os.getenv"}
READ = r"(?:environ(?:\.get)?\s*[\[(]|getenv\()\s*['\"]{name}['\"](?!\s*\]\s*=[^=])|['\"]{name}['\"]\s+(?:not\s+)?in\s+(?:os\.)?environ"


def check(context: Context):
    for node in context.facts.of(ast.Constant):
        if not isinstance(node.value, str) or not VARIABLE.fullmatch(node.value) or syntax.is_dead(node):
            continue
        statement = setting(context, node)
        if statement is not None:
            yield set_finding(context, node, statement)
        elif not is_reading(context, node) or is_in_setting_of_itself(context, node):
            continue
        elif isinstance(node.parent.parent, ast.Dict):
            yield context.finding(node, f"{node.value} is listed, as a fact about the machine", is_idiom=False)
        else:
            yield context.finding(
                node, f"{node.value} is not set on a TPU machine: decide what the program is to do without it",
                danger=Danger.SILENT, severity=Severity.WARNING,
            )


def setting(context: Context, node: ast.Constant) -> ast.stmt | None:
    """The statement that sets or unsets the variable, and does nothing else."""
    place = node.parent
    if isinstance(place, ast.Subscript) and place.slice is node and context.refers(place.value, "os.environ"):
        statement = place.parent
        if isinstance(statement, ast.Assign) and statement.targets == [place]:
            return statement
        return statement if isinstance(statement, ast.Delete) and statement.targets == [place] else None
    if isinstance(place, ast.Call) and place.args[:1] == [node] and context.refers(place.func, *SETTERS) and isinstance(place.parent, ast.Expr):
        return place.parent
    return None


def set_finding(context: Context, node: ast.Constant, statement: ast.stmt):
    name = node.value
    if not belongs_to_torch(context):
        return context.finding(statement, f"sets {name}, in a program without torch", is_idiom=False)
    if name == "CUDA_VISIBLE_DEVICES" and isinstance(statement, ast.Assign) and hides_devices(statement.value):
        quote = context.text(node)[0]
        ops = [*context.replace(node, quote + "{host_only}" + quote), *context.replace(statement.value, quote + "{host_only_value}" + quote)]
        return context.finding(statement, "hides the GPUs, but not the TPU", ops, grade=Grade.REQUIRED, danger=Danger.SILENT)
    if is_read(context, name):
        return context.finding(statement, f"sets {name}, which a TPU does not read but this program does")
    return context.finding(statement, f"nothing on a TPU reads {name}", context.remove(statement))


def hides_devices(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value in ("", "-1", "none", "None")


def is_reading(context: Context, node: ast.Constant) -> bool:
    place = node.parent
    if isinstance(place, ast.Subscript):
        return place.slice is node and context.refers(place.value, "os.environ")
    if isinstance(place, ast.Call):
        return place.args[:1] == [node] and context.refers(place.func, *READERS, *SETTERS)
    return isinstance(place, ast.Compare) and any(context.refers(part, "os.environ") for part in place.comparators)


def is_in_setting_of_itself(context: Context, node: ast.Constant) -> bool:
    """`os.environ[X] = os.environ.get(X, "0")`, and a test before the setting: `if X not in os.environ:`."""
    statement = syntax.statement_of(node)
    inner = statement.body if isinstance(statement, ast.If) and any(part is node for part in ast.walk(statement.test)) else [statement]
    return all(
        any(isinstance(part, ast.Constant) and part.value == node.value and setting(context, part) is one for part in ast.walk(one))
        for one in inner
    )


def is_read(context: Context, name: str) -> bool:
    if any(part.value == name and is_reading(context, part) and setting(context, part) is None and not is_in_setting_of_itself(context, part)
           for part in context.facts.of(ast.Constant)):
        return True
    pattern = re.compile(READ.replace("{name}", re.escape(name)))
    own = context.module.source.path
    program = context.project.links.program(own) & ~context.project.files.mask([own])
    return any(context.project.mentions(path, pattern) for path in context.project.with_word(name, within=program))


def belongs_to_torch(context: Context) -> bool:
    return context.project.program_mentions(context.module.source.path, TORCH)
