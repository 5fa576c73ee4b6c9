"""Launch scripts, and the shell lines of Makefiles and Dockerfiles."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from xlaport.findings import Danger, Finding, Grade
from xlaport.projectfiles import installs, settings_keys
from xlaport.projectfiles.shell_words import ASSIGNMENT, Command, Word, commands
from xlaport.projectfiles.view import Edit, View

VISIBLE = "CUDA_VISIBLE_DEVICES"
VARIABLE = re.compile(
    r"(?:TORCH_)?NCCL_\w+$|CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|MODULE_LOADING)$"
    r"|PYTORCH_(?:NVML_BASED_)?CUDA_\w+$|PYTORCH_NO_CUDA_MEMORY_CACHING$|CUBLAS_WORKSPACE_CONFIG$|(?:NVIDIA_TF32|TORCH_ALLOW_TF32_CUBLAS)_OVERRIDE$"
)
"""What steers a training program; what steers a compiler or a container (`CUDA_HOME`) is not among them."""

NO_GPU = frozenset({"", "-1", "none"})
MPI = frozenset({"mpirun", "mpiexec", "orterun", "horovodrun"})
PYTHON = re.compile(r"(?:^|/)python[\d.]*$|\.py$")
"""A word of a command that starts a Python program."""

LAUNCHER = re.compile(r"(?<![\w./-])(?<!launcher=)torchrun(?![\w/-])|(?:(?<=-m )|(?<=-m)|^)torch\.distributed\.(?:launch|run)\b")
PROCESSES = re.compile(r"--nproc[_-]per[_-]node[= ]+(?P<count>\"?\$?[\w{}:\-]+)")
NVIDIA_SMI = re.compile(r"(?<![\w./-])nvidia-smi(?![\w-])")
NOT_PROGRAMS = frozenset(
    "docker nvidia-docker podman pip pip3 conda mamba apt-get apt git cmake nvcc sbatch srun salloc sudo "
    "echo printf export test [ readonly local declare typeset let unset".split()
)
"""Commands whose options are not those of a training program."""

OPTION = re.compile(r"(?P<name>--?[A-Za-z][\w.-]*)(?:=(?P<value>.*))?$", re.DOTALL)
OVERRIDE = re.compile(r"\+{0,2}(?P<name>[a-z][\w.]*)=(?P<value>.*)$", re.DOTALL)
OPENS_BLOCK = re.compile(r"(?:\b(?:then|do|else)|[{)])\s*$")
CLOSES_BLOCK = re.compile(r"\s*(?:fi|done|else|elif|esac|;;|})")


SLURM_GPUS = re.compile(r"--(?:gres=\S*gpu\S*|gpus(?:-per-\w+)?(?:=|[ ]+)\S+|gpu-bind\S*)")
SLURM_TASKS = re.compile(r"--n?tasks-per-node(?:=|[ ]+)(?P<count>[2-9]|\d\d+)")


def check(view: View) -> Iterator[Finding]:
    yield from slurm_findings(view)
    for command in commands(view.text):
        yield from command_findings(view, command)


def slurm_findings(view: View) -> Iterator[Finding]:
    """Requests of a job for GPUs, which are comments to the shell."""
    for line in re.finditer(r"^#SBATCH[ \t].*$", view.text, re.MULTILINE):
        for found in SLURM_GPUS.finditer(line[0]):
            message = f"{found[0]} asks SLURM for GPUs: ask for the nodes that have TPUs, as your site names them"
            yield view.finding("XP864", line.start() + found.start(), line.start() + found.end(), message)
        for found in SLURM_TASKS.finditer(line[0]):
            message = f"{found[0]}: one task a host, and the workers in it; SLURM_PROCID is then the number of the host"
            yield view.finding("XP864", line.start() + found.start(), line.start() + found.end(), message)


def command_findings(view: View, command: Command) -> Iterator[Finding]:
    yield from variable_findings(view, command)
    yield from launcher_findings(view, command)
    yield from driver_findings(view, command)
    yield from installs.findings(view, command)
    yield from option_findings(view, command)


# -- environment variables


def variable_findings(view: View, command: Command) -> Iterator[Finding]:
    call = command.call
    for word, following in zip(command.words, (*command.words[1:], None)):
        if word not in command.assignments:
            break
        if is_cuda_variable(word) and call:
            picks_apart = command.background and word.text.startswith(VISIBLE)
            yield variable(view, word, None if picks_apart else [Edit(word.start, following.start)])
        elif is_cuda_variable(word):
            yield variable(view, word, removed_setting(view, command, word))
    yield from renamed_variables(view, command)
    if not call:
        return
    if call[0].text in {"export", "env", "declare"}:
        for previous, word in zip(call, call[1:]):
            if is_cuda_variable(word):
                alone = call[0].text != "env" and len(call) == 2
                yield variable(view, word, removed_setting(view, command, word) if alone else [Edit(previous.end, word.end)])
    else:
        for previous, word in zip(call, call[1:]):
            if previous.text in {"-x", "-e", "--env"} and word.text.split("=")[0] == VISIBLE:
                message = f"{VISIBLE} has no effect on a TPU: take the option out, or limit the chips with TPU_VISIBLE_CHIPS"
                yield view.finding("XP860", previous.start, word.end, message)


def renamed_variables(view: View, command: Command) -> Iterator[Finding]:
    """Settings of variables that an earlier release of the target read."""
    for word in command.words:
        found = ASSIGNMENT.match(word.text)
        if found and found["name"] in view.target.renamed_variables:
            yield renamed_variable(view, found["name"], word.start)


def renamed_variable(view: View, name: str, start: int) -> Finding:
    """The finding for `name`, which stands at `start`."""
    new, end = view.target.renamed_variables[name], start + len(name)
    return view.finding("XP172", start, end, f"{name} is read by nothing: {new} is", [Edit(start, end, new)], danger=Danger.SILENT)


def is_cuda_variable(word: Word) -> bool:
    found = ASSIGNMENT.match(word.text)
    return bool(found) and (found["name"] == VISIBLE or VARIABLE.match(found["name"]) is not None)


def variable(view: View, word: Word, edits: list[Edit] | None) -> Finding:
    name, _, value = word.text.partition("=")
    if name != VISIBLE:
        message = f"{name} means nothing to a TPU" + ("" if edits else ": take it out, and what reads it")
        return view.finding("XP861", word.start, word.end, message, edits, danger=Danger.NONE)
    if value.strip("\"'").lower() in NO_GPU:
        off = view.target.expand("{host_only}={host_only_value}")
        message = f"{word.text} kept the program off the GPU; {off} keeps it off the TPU"
        edit = [Edit(word.start, word.end, off)]
        return view.finding("XP860", word.start, word.end, message, edit, grade=Grade.REQUIRED, danger=Danger.SILENT)
    message = f"{word.text} has no effect on a TPU: a plain program has one chip, a launched one has all"
    if not edits:
        message += "; TPU_VISIBLE_CHIPS shares a machine's chips among programs"
    return view.finding("XP860", word.start, word.end, message, edits)


def removed_setting(view: View, command: Command, word: Word) -> list[Edit] | None:
    """Takes out a line that sets a variable; None where something reads it, or nothing would be left of a block."""
    name = word.text.partition("=")[0]
    if not (command.first and command.last) or re.search(rf"\$\{{?[!#]?{name}\b", view.text):
        return None
    start, end = view.line_start(word.start), view.line_end(word.end)
    before, after = view.text[:start].rstrip(), view.text[end:].lstrip()
    if OPENS_BLOCK.search(before[-80:]) and CLOSES_BLOCK.match(after[:80]) or before.endswith(("\\", "&&", "||")):
        return None
    return [view.without_lines(word.start, word.end)]


# -- launchers and the driver


def launcher_findings(view: View, command: Command) -> Iterator[Finding]:
    if is_message(command):
        return
    for word in command.words:
        found = LAUNCHER.search(word.text)
        if found:
            start = word.start + found.start()
            why, edits = plain_start(view, command, word)
            yield view.finding("XP862", start, start + len(found[0]), why or torch_launcher(view, command, found[0]), edits)
            return
    call = [word.text for word in command.call]
    if call and call[0] in MPI and any(PYTHON.search(text) for text in call):
        message = f"{call[0]} starts processes that no TPU runtime knows: start the script once on each host, or with torchrun, a process a chip"
        yield view.finding("XP862", command.call[0].start, command.call[0].end, message)
    elif call[:1] == ["deepspeed"] and len(call) > 1:
        message = "deepspeed has no launcher for TPUs: start the script with torchrun, a process a chip"
        yield view.finding("XP862", command.call[0].start, command.call[0].end, message)
    elif call[:2] == ["accelerate", "launch"] and any(re.match(r"--(?:multi_gpu|gpu_ids|num_processes)\b", text) for text in call):
        message = "accelerate launch counts GPUs here: run `accelerate config` on the TPU machine and leave the counts to it"
        yield view.finding("XP862", command.call[0].start, command.call[1].end, message)


def plain_start(view: View, command: Command, launcher: Word) -> tuple[str, list[Edit] | None]:
    """Why the script of a launcher is started plainly in the port, and the edit; nothing where it is not known to be."""
    following = [word for word in command.words if word.start > launcher.start]
    script = next((word for word in following if word.value.endswith(".py")), None)
    name = script and next((name for name in candidates(view, script.value) if name in view.started), None)
    if name is None:
        return "", None
    before = [word for word in command.call if word.start < launcher.start]
    if launcher.text == "torchrun" and (not before or before[-1].text in NOT_PROGRAMS):
        return view.started[name], [Edit(launcher.start, script.start, "python ")]
    if launcher.text.startswith("torch.distributed.") and before and before[-1].text == "-m":
        return view.started[name], [Edit(before[-1].start, script.start)]
    return view.started[name], None


def candidates(view: View, script: str) -> Iterator[str]:
    """Names a script may have in the project: relative to the file that starts it, to the top, or by its end where one file has it."""
    path = posixpath.normpath(script)
    yield posixpath.normpath(posixpath.join(posixpath.dirname(view.source.name), path))
    yield path
    same = [name for name in view.started if name.endswith("/" + posixpath.basename(path)) or name == posixpath.basename(path)]
    if len(same) == 1:
        yield same[0]


def is_message(command: Command) -> bool:
    return bool(command.call) and command.call[0].text in {"echo", "printf", "#"}


def torch_launcher(view: View, command: Command, launcher: str) -> str:
    text = view.text[command.words[0].start : command.words[-1].end]
    count = PROCESSES.search(text)
    number = f" {count['count'].strip(chr(34))}" if count else ""
    if view.target.distributed == "keep":
        return f"{launcher} starts{number} processes here: start one a chip, with the environment that {view.target.launcher} sets made before it"
    message = f"{launcher} starts{number} processes here: start one a chip, or start the script plainly where it was migrated to {view.target.launcher}"
    return message + ("; torchrun takes its place and passes no --local-rank" if launcher.endswith(".launch") else "")


def driver_findings(view: View, command: Command) -> Iterator[Finding]:
    if is_message(command):
        return
    for word in command.words:
        for found in NVIDIA_SMI.finditer(word.text):
            start = word.start + found.start()
            alone = len(command.words) == 1 and word.text == found[0] and command.first and command.last
            message = view.target.expand("nvidia-smi asks the NVIDIA driver: {chip_tool} ")
            message += "takes its place" if alone else "lists the chips of a TPU machine"
            edits = [Edit(start, start + len(found[0]), "tpu-info")] if alone else None
            yield view.finding("XP863", start, start + len(found[0]), message, edits)


# -- options of the program


def option_findings(view: View, command: Command) -> Iterator[Finding]:
    """Options that name a device, a backend, GPUs or half precision, read as settings are."""
    call = command.call
    if not call:
        return
    name = call[0].text.rsplit("/", 1)[-1]
    if name in {"docker", "podman", "nvidia-docker"}:
        yield from container_findings(view, call)
    if name in NOT_PROGRAMS:
        return
    options = [found for word, following in zip(call[1:], (*call[2:], None)) if (found := option(word, following))]
    in_trainer = any(map(settings_keys.is_accelerator, options))
    for found in options:
        yield from settings_keys.scalar_findings(view, found, in_trainer)


class Option:
    """An option of a command line in the form of a setting."""

    def __init__(self, name: str, text: str, start: int, end: int):
        self.path, self.text, self.start, self.end = (name,), text, start, end


def option(word: Word, following: Word | None) -> Option | None:
    """`--name value`, `--name=value`, a bare `--name`, or an override `name=value` of hydra."""
    found = OPTION.match(word.text) or OVERRIDE.match(word.text)
    if not found:
        return None
    name, value = found["name"], found["value"]
    if value is not None:
        start, end = word.start + found.start("value"), word.end
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            return Option(name, value[1:-1], start + 1, end - 1)
        return Option(name, value, start, end)
    if following is None or following.text.startswith("-") and not following.text[1:].isdigit():
        return Option(name, "true", word.start, word.end)
    shift = (len(following.text) - len(following.value)) // 2
    return Option(name, following.value, following.start + shift, following.end - shift)


def container_findings(view: View, call: tuple[Word, ...]) -> Iterator[Finding]:
    for word in call:
        if word.text.startswith("--gpus") or word.text == "--runtime=nvidia" or word.text == "nvidia-docker":
            message = f"{word.text} gives a container GPUs: on a TPU machine run it with --privileged --net=host"
            yield view.finding("XP859", word.start, word.end, message)
            return
