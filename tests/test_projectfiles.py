"""Files that are not Python. The examples of the pages XP850 to XP879 run in test_rules.py; here are the ways such files are written."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlaport import projectfiles
from xlaport.config import Settings
from xlaport.engine import FileChange, Selection
from xlaport.findings import Danger, Grade
from xlaport.projectfiles import json_values, packages, pyproject, shell_words, toml_values, yaml_values
from xlaport.projectfiles.belonging import of_other_frameworks
from xlaport.projectfiles.malformed import Malformed
from xlaport.source import SourceFile

PLAIN = Selection(Settings(), frozenset({Grade.SAFE, Grade.REQUIRED}))


def source(name: str, text: str | bytes) -> SourceFile:
    raw = text if isinstance(text, bytes) else text.encode("utf-8")
    return SourceFile.from_bytes(Path("/project") / name, name, raw)


def migrated(name: str, text: str | bytes, selection: Selection = PLAIN) -> FileChange:
    """The change of one file, after the checks every change must pass."""
    change = projectfiles.migrate(source(name, text), selection)
    again = projectfiles.migrate(change.after, selection)
    assert again.after.raw == change.after.raw, "a second run changes the file"
    assert again.remaining == change.remaining
    lines = change.after.text.splitlines()
    assert all(1 <= finding.location.line <= max(len(lines), 1) for finding in change.remaining)
    return change


def after(name: str, text: str | bytes) -> str:
    return migrated(name, text).after.text


def left(name: str, text: str | bytes) -> list[tuple[str, int]]:
    """Code and line of what is left for a person."""
    return [(finding.code, finding.location.line) for finding in migrated(name, text).remaining]


# -- which files


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements/base.txt", "requirements.in", "constraints.txt",
        "pyproject.toml", "Pipfile", "setup.cfg", "environment.yml", "train.sh", "job.slurm", "Dockerfile", "docker/Dockerfile.gpu", "Makefile",
        "configs/base.yaml", "train.toml", "config.json", "config_v1.json", "conf/model.json",
    ],
)
def test_is_project_file(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert projectfiles.is_project_file(path)


@pytest.mark.parametrize(
    "name",
    [
        "README.md", "notes.txt", "poetry.lock", "package.json", "package-lock.json", "tsconfig.json", "tokenizer_config.json", "data.json",
        ".pre-commit-config.yaml", "mkdocs.yml", "docker-compose.yml", "train.py", "config.ini",
    ],
)
def test_is_no_project_file(tmp_path, name):
    (tmp_path / name).write_text("x")
    assert not projectfiles.is_project_file(tmp_path / name)


def test_large_settings_are_data(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("[" + " " * projectfiles.MAX_SETTINGS + "]")
    assert not projectfiles.is_project_file(path)


@pytest.mark.parametrize("name", [".github/workflows/test.yml", "docs/requirements.txt", ".ci/run.sh", "serve/triton/config.yaml"])
def test_folders_left_alone(name):
    text = "torch==1.8\ndevice: cuda\nnvidia-smi\n"
    change = migrated(name, text)
    assert change.after.text == text and not change.remaining


@pytest.mark.parametrize(
    "name", ["requirements.txt", "setup.cfg", "train.sh", "config.yaml", "Dockerfile", "Makefile", "pyproject.toml", "config.json"]
)
def test_file_without_torch_is_untouched(name):
    text = {
        "pyproject.toml": '[project]\nname = "x"\nrequires-python = ">=3.7"\ndependencies = ["numpy"]\n',
        "config.json": '{"lr": 0.1, "name": "gpt"}\n',
        "config.yaml": "lr: 0.1\nname: x\n",
    }.get(name, "numpy==1.20\n")
    change = migrated(name, text)
    assert change.after is change.before and not change.applied and not change.remaining


# -- bytes that must survive


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("final", [True, False])
def test_newlines_and_bom(newline, bom, final):
    given_text = newline.join(["# größe", "torch==1.8.0  # läuft", "tqdm", "triton==2.0"]) + (newline if final else "")
    wanted = newline.join(["# größe", "torch==2.9.*  # läuft", "torch_xla[tpu]==2.9.*", "tqdm"]) + (newline if final else "")
    assert migrated("requirements.txt", bom + given_text.encode()).after.raw == bom + wanted.encode()


def test_torch_on_the_last_line_without_newline():
    assert after("requirements.txt", "tqdm\ntorch") == "tqdm\ntorch==2.9.*\ntorch_xla[tpu]==2.9.*"


def test_neighbours_at_the_end_are_removed():
    assert after("requirements.txt", "torch==2.9.*\ntorch_xla==2.9.0\ntriton\nxformers") == "torch==2.9.*\ntorch_xla==2.9.0"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_newlines_of_other_kinds(newline):
    yaml = newline.join(["a: ü", "device: cuda # ä", "b: [1,", "    2]", ""])
    assert after("config.yaml", yaml) == yaml.replace("cuda", "xla")
    shell = newline.join(["#!/bin/sh", "NCCL_DEBUG=INFO \\", "  python train.py", ""])
    assert after("train.sh", shell) == newline.join(["#!/bin/sh", "python train.py", ""])
    toml = newline.join(["[project]", 'name = "ü"', "dependencies = [", '  "torch",  # größe', "]", ""])
    wanted = toml.replace('"torch",  # größe', f'"torch==2.9.*",  # größe{newline}  "torch_xla[tpu]==2.9.*",')
    assert after("pyproject.toml", toml) == wanted


# -- requirements


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("torch", "torch==2.9.*"),
        ("Torch >= 1.8", "Torch == 2.9.*"),
        ("torch>=1.8,<2.0", "torch==2.9.*"),
        ("torch (>=1.8)", "torch (==2.9.*)"),
        ("torch[opt-einsum]>=2", "torch[opt-einsum]==2.9.*"),
        ("torch[opt-einsum]", "torch[opt-einsum]==2.9.*"),
        ("torch~=2.8", "torch==2.9.*"),
        ("torch==2.9.0+cu128", "torch==2.9.*"),
        ("torch!=2.0", "torch==2.9.*"),
        ("torch>=2.10", "torch==2.9.*"),
        ("torchvision==0.15.1", "torchvision==0.24.*"),
        ("torch_xla[tpu]~=2.5.0", "torch_xla[tpu]==2.9.*"),
        ("torch; python_version>='3.8'", "torch==2.9.*; python_version>='3.8'"),
    ],
)
def test_version(line, wanted):
    text = after("requirements.txt", f"torch_xla==2.9.0\n{line}\n")
    assert text == f"torch_xla==2.9.0\n{wanted}\n"


@pytest.mark.parametrize("spec", ["==2.9.1", "==2.9.*", "~=2.9.0", ">=2.9,<2.10", ">=2.9.0,<2.9.2", "===2.9.0"])
def test_version_inside_the_series_stays(spec):
    text = f"torch{spec}\ntorch-xla{spec}\n"
    assert after("requirements.txt", text) == text


def test_message_names_old_and_new_pins():
    old, new = migrated("requirements.txt", "torch==1.8\ntorchvision>=0.25\ntorch_xla==2.9.0").applied
    assert "older one" in old.message and "newer one" in new.message


@pytest.mark.parametrize(
    "line",
    [
        "-e .", "-e ./lib", "-r other.txt", "-c constraints.txt", "./wheels/demo-1.0-py3-none-any.whl", "git+https://github.com/a/b.git@v1#egg=b",
        "demo @ https://example.org/demo-1.0.tar.gz", "--no-binary :all:", "torchmetrics", "pytorch-lightning", "torch-fidelity==0.3", "${PACKAGE}",
        "file:///srv/x.whl", "tqdm==4.0 \\\n    --global-option=x",
    ],
)
def test_other_lines_stay(line):
    text = f"torch==2.9.*\ntorch_xla[tpu]==2.9.*\n{line}\n"
    change = migrated("requirements.txt", text)
    assert change.after.text == text and not change.remaining


@pytest.mark.parametrize(
    "line", ["-e git+https://github.com/pytorch/pytorch.git#egg=torch", "torch @ https://example.org/torch-2.1.whl", "torch==${TORCH_VERSION}"]
)
def test_torch_from_elsewhere_is_reported(line):
    text = f"{line}\ntorch_xla[tpu]==2.9.*\n"
    assert after("requirements.txt", text) == text
    assert left("requirements.txt", text) == [("XP855", 1)]


def test_hashes_are_reported_once():
    text = "torch==2.1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\ntorchvision==0.16.0 --hash=sha256:cc\ntriton==2.1.0 --hash=sha256:dd\n"
    assert after("requirements.txt", text) == text
    assert left("requirements.txt", text) == [("XP855", 1)]


def test_generated_file_is_reported_once():
    text = "# This file was autogenerated by uv via the following command:\n#    uv export\ntorch==2.1.0\n    # via demo\ntriton==2.1.0\n"
    assert after("requirements.txt", text) == text
    assert left("requirements.txt", text) == [("XP855", 3)]


def test_torch_of_another_file():
    assert after("requirements-dev.txt", "-r requirements.txt\ntorchvision\n") == "-r requirements.txt\ntorchvision==0.24.*\n"


def test_constraints_take_no_extras():
    assert after("constraints.txt", "torch==1.8\n") == "torch==2.9.*\n"


def test_files_of_other_frameworks_are_left():
    text = "tensorflow==2.4\npycuda\nnvidia-pyindex\n"
    assert after("requirements.txt", text) == text and not left("requirements.txt", text)


def test_list_for_cuda_alone_is_kept():
    assert after("requirements-flash.txt", "flash-attn\n") == "flash-attn\n"
    assert left("requirements-flash.txt", "flash-attn\n") == [("XP853", 1)]


def test_option_next_to_a_requirement():
    text = "torch==2.9.* -f https://download.pytorch.org/whl/torch_stable.html\ntorch_xla==2.9.0\n"
    assert after("requirements.txt", text) == "torch==2.9.*\ntorch_xla==2.9.0\n"
    assert after("requirements.txt", "--pre --extra-index-url https://download.pytorch.org/whl/nightly/cu121\ntqdm\n") == "--pre\ntqdm\n"


@pytest.mark.parametrize("name", ["nvidia-cublas-cu12", "nvidia_cudnn_cu11", "cupy-cuda12x", "Flash_Attn", "triton", "apex", "nvidia-dali-cuda110"])
def test_cuda_only(name):
    assert packages.known(packages.normalized(name)).removable


@pytest.mark.parametrize("name", ["tritonclient", "nvidia-dllogger", "torch-geometric", "flashtext", "xformers-lite", "cudatext", "apex-legends"])
def test_not_cuda_only(name):
    assert packages.known(packages.normalized(name)) is None


# -- what is selected


def test_suppression():
    text = "torch==1.8  # xlaport: ignore[XP850]\ntqdm\n"
    assert after("requirements.txt", text) == "torch==1.8  # xlaport: ignore[XP850]\ntorch_xla[tpu]==2.9.*\ntqdm\n"
    silent = "device: cuda  # xlaport: ignore\nbackend: nccl\n"
    assert after("config.yaml", silent) == silent.replace("nccl", "xla")
    skipped = "# xlaport: skip-file\ntorch==1.8\n"
    assert after("requirements.txt", skipped) == skipped


def test_selection():
    text = "torch==1.8\ntriton\ntqdm\n"
    safe = migrated("requirements.txt", text, replace(PLAIN, grades=frozenset({Grade.SAFE})))
    assert safe.after.text == text and [f.code for f in safe.remaining] == ["XP850", "XP851", "XP853"]
    some = migrated("requirements.txt", text, replace(PLAIN, settings=Settings(ignore=("XP853",))))
    assert some.after.text == "torch==2.9.*\ntorch_xla[tpu]==2.9.*\ntriton\ntqdm\n"
    assert [(f.code, f.location.line) for f in some.remaining] == [("XP853", 3)]


def test_places_count_from_one_in_characters():
    (finding,) = migrated("config.yaml", "x: ü\n'ü': {device: cuda}\n").applied
    assert (finding.location.line, finding.location.column, finding.location.end_column) == (2, 15, 19)


# -- pyproject


def test_pyproject_layouts():
    text = """\
[build-system]
requires = ["setuptools", "torch>=1.10"]

[project]
name = 'demo'  # torch
dependencies = ["numpy", 'torch', "triton"]

[project.optional-dependencies]
dev = [
  "pytest"
]
test = [
  "torch==2.4.0",
  "deepspeed",
  "apex" # last
]

[dependency-groups]
lint = ["torch", {include-group = "dev"}]

[tool.black]
line-length = 120
"""
    wanted = (
        text.replace('"torch>=1.10"', '"torch==2.9.*"')
        .replace("""'torch', "triton"]""", """'torch==2.9.*', 'torch_xla[tpu]==2.9.*']""")
        .replace("torch==2.4.0", "torch==2.9.*")
        .replace('lint = ["torch"', 'lint = ["torch==2.9.*"')
    )
    assert after("pyproject.toml", text) == wanted
    tomllib.loads(wanted)
    assert left("pyproject.toml", text) == [("XP854", 14), ("XP853", 15)]


def test_last_element_without_comma():
    text = '[project]\ndependencies = [\n    "torch"  # core\n]\n'
    assert after("pyproject.toml", text) == '[project]\ndependencies = [\n    "torch==2.9.*",  # core\n    "torch_xla[tpu]==2.9.*"\n]\n'


def test_poetry():
    text = """\
[tool.poetry.dependencies]
python = "^3.8"
torch = {version = "^1.12", source = "cu118"}
torchvision = {url = "https://example.org/torchvision.whl"}
tqdm = "*"

[tool.poetry.group.gpu.dependencies]
apex = "0.1"

[[tool.poetry.source]]
name = "cu118"
url = "https://download.pytorch.org/whl/cu118"
"""
    added = '\ntorch_xla = { version = "2.9.*", extras = ["tpu"] }'
    wanted = text.replace('"^3.8"', '"^3.10"').replace('"^1.12", source = "cu118"}', '"2.9.*", source = "cu118"}' + added)
    assert after("pyproject.toml", text) == wanted
    assert left("pyproject.toml", text) == [("XP855", 5), ("XP853", 9), ("XP852", 13)]


CHOICE = """\
torch = [
    {version = "^1.12", markers = "sys_platform == 'linux'"},
    {version = "^2.0", markers = "sys_platform == 'darwin'"},
]
"""


@pytest.mark.parametrize(
    "name, text",
    [
        ("pyproject.toml", "[tool.poetry.dependencies]\n" + CHOICE),
        ("pyproject.toml", "[tool.poetry.dependencies]\n" + CHOICE.replace("\n", "") + "\n"),
        ("pyproject.toml", "[tool.poetry.dependencies]\n" + CHOICE.replace("torch", "triton").replace("1.12", "2.1") + 'tqdm = "*"\n'),
        ("pyproject.toml", '[tool.poetry.dependencies.torch]\nversion = "^2.0"\n'),
        ("pyproject.toml", '[tool.poetry]\ndependencies.torch = "^2.0"\n'),
        ("Pipfile", '[packages.torch]\nversion = "*"\n'),
    ],
)
def test_entries_that_are_no_line_of_their_table_are_left(name, text):
    assert after(name, text) == text
    assert {code for code, _ in left(name, text)} <= {"XP855", "XP853"} and left(name, text)


@pytest.mark.parametrize(
    "needed, poetry, pipfile",
    [
        ("torch-tpu==0.2.*", 'torch-tpu = "0.2.*"', 'torch-tpu = "==0.2.*"'),
        ("a_b[c,d]>=1,<2", 'a_b = { version = ">=1,<2", extras = ["c", "d"] }', 'a_b = { version = ">=1,<2", extras = ["c", "d"] }'),
        ("jax", 'jax = "*"', 'jax = "*"'),
        ("torch_xla[tpu]", 'torch_xla = { version = "*", extras = ["tpu"] }', 'torch_xla = { version = "*", extras = ["tpu"] }'),
    ],
)
def test_a_requirement_as_an_entry_of_a_table(needed, poetry, pipfile):
    assert (pyproject.table_entry(needed, in_pipfile=False), pyproject.table_entry(needed, in_pipfile=True)) == (poetry, pipfile)


@pytest.mark.parametrize(
    ("written", "added"),
    [
        ("\"sys_platform == 'linux'\"", "\"sys_platform == 'linux'\""),
        ("'sys_platform == \"linux\"'", "'sys_platform == \"linux\"'"),
        ('"sys_platform == \\"linux\\""', "'sys_platform == \"linux\"'"),
    ],
)
def test_what_is_added_beside_a_marked_entry_has_its_marker(written, added):
    text = f'[tool.poetry.dependencies]\ntorch = {{ version = "2.9.1", markers = {written} }}\n'
    assert after("pyproject.toml", text) == text + f'torch_xla = {{ version = "2.9.*", extras = ["tpu"], markers = {added} }}\n'
    apple = text.replace("linux", "darwin")
    assert after("pyproject.toml", apple) == apple


def test_pipfile():
    text = '[[source]]\nurl = "https://packages.example.com/simple"\n\n[packages]\ntorch = "*"\ntriton = "==2.0"\ntqdm = "*"\n'
    added = 'torch_xla = { version = "==2.9.*", extras = ["tpu"] }\n'
    assert after("Pipfile", text) == text.replace('torch = "*"\ntriton = "==2.0"\n', 'torch = "==2.9.*"\n' + added)


@pytest.mark.parametrize(
    "declared, wanted",
    [(">=3.8", ">=3.10"), (">=3.7,<4", ">=3.10,<4"), (">= 3.6.1", ">= 3.10"), (">=3.10", ">=3.10"), (">=3.11,<3.13", ">=3.11,<3.13")],
)
def test_python_version(declared, wanted):
    text = f'[project]\nrequires-python = "{declared}"\ndependencies = ["torch==2.9.*", "torch_xla==2.9.*"]\n'
    assert after("pyproject.toml", text) == text.replace(declared, wanted)


@pytest.mark.parametrize("declared", [">=3.6,<3.10", "==3.8.*", "~=3.8.0"])
def test_python_version_that_excludes_310(declared):
    text = f'[project]\nrequires-python = "{declared}"\ndependencies = ["torch==2.9.*", "torch_xla==2.9.*"]\n'
    assert after("pyproject.toml", text) == text and left("pyproject.toml", text) == [("XP856", 2)]


# -- setup.cfg, setup.py


def test_setup_cfg():
    text = """\
[metadata]
name = torch

[options]
python_requires = >=3.7
install_requires =
    torch>=1.5
    # a note
    triton
zip_safe = no

[options.extras_require]
fast = flash-attn
"""
    added = "    torch==2.9.*\n    torch_xla[tpu]==2.9.*\n"
    wanted = text.replace(">=3.7", ">=3.10").replace("    torch>=1.5\n", added).replace("    triton\n", "")
    assert after("setup.cfg", text) == wanted
    assert left("setup.cfg", text) == [("XP853", 13)]


def test_setup_py():
    text = """\
from setuptools import setup
# läuft
REQUIRED = ['numpy', "torch>=1.0", 'triton']
setup(
    name="ü", install_requires=REQUIRED, python_requires=">=3.7",
    extras_require={"fast": ["flash-attn"]},
)
"""
    before = FileChange(source("setup.py", text), source("setup.py", text))
    change = projectfiles.with_requirements(before, PLAIN)
    wanted = text.replace(""""torch>=1.0", 'triton'""", '"torch==2.9.*", "torch_xla[tpu]==2.9.*"').replace(">=3.7", ">=3.10")
    assert change.after.text == wanted
    assert [(f.code, f.location.line) for f in change.remaining] == [("XP853", 6)]
    other = replace(before, before=source("train.py", text))
    assert projectfiles.with_requirements(other, PLAIN) is other


@pytest.mark.parametrize(
    "text", ["setup(install_requires=reqs)\n", "setup(**config)  # torch\n", "setup(install_requires=['torch' + x])\n", "setup(install_requires=[\n"]
)
def test_setup_py_left_alone(text):
    change = FileChange(source("setup.py", text), source("setup.py", text))
    assert projectfiles.with_requirements(change, PLAIN) is change


# -- conda


def test_conda_environment():
    text = """\
name: demo
channels: [pytorch, nvidia]
dependencies:
    - python>=3.8, < 3.10  # old
    - nvidia::cuda-toolkit=12.1
    - pytorch::pytorch=2.0=py3.9_cuda11.7
    - torchaudio
    - pytorch-lightning
    - cupy
"""
    wanted = """\
name: demo
channels: [pytorch, nvidia]
dependencies:
    - python>=3.8, < 3.10  # old
    - pytorch-lightning
    - cupy
    - pip
    - pip:
      - torch==2.9.*
      - torch_xla[tpu]==2.9.*
      - torchaudio==2.9.*
"""
    assert after("environment.yml", text) == wanted
    assert left("environment.yml", text) == [("XP856", 4), ("XP854", 6)]


def test_conda_with_torch_in_the_pip_list():
    text = "name: x\ndependencies:\n- pip\n- pip:\n  - torch==1.8+cu111\n  - -r requirements.txt\n"
    assert after("environment.yml", text) == text.replace("torch==1.8+cu111", "torch==2.9.*\n  - torch_xla[tpu]==2.9.*")


def test_conda_environment_of_torch_alone_is_left():
    text = "name: x\ndependencies:\n  - pytorch\n"
    assert after("environment.yml", text) == text and left("environment.yml", text) == [("XP858", 3)]


# -- scripts


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("CUDA_VISIBLE_DEVICES=0 python a.py", "python a.py"),
        ("  A=1 CUDA_VISIBLE_DEVICES=0,1 B=2 python a.py", "  A=1 B=2 python a.py"),
        ("cd x && CUDA_VISIBLE_DEVICES=0 python a.py", "cd x && python a.py"),
        ("CUDA_VISIBLE_DEVICES='' python a.py", "PJRT_DEVICE=CPU python a.py"),
        ("export CUDA_VISIBLE_DEVICES=-1", "export PJRT_DEVICE=CPU"),
        ("if CUDA_VISIBLE_DEVICES=0 python a.py; then", "if python a.py; then"),
        ("export A=1 NCCL_DEBUG=INFO", "export A=1"),
        ("python a.py --device=cuda:1 --backend='nccl'", "python a.py --device=xla --backend='xla'"),
        ("python a.py --accelerator gpu", "python a.py --accelerator tpu"),
        ("pip install torch==1.13+cu117 --index-url https://download.pytorch.org/whl/cu117", "pip install 'torch==2.9.*' 'torch_xla[tpu]==2.9.*'"),
        ('uv pip install "torch>=2" torchvision apex -e .', 'uv pip install "torch==2.9.*" "torch_xla[tpu]==2.9.*" \'torchvision==0.24.*\' -e .'),
        (
            "python -m pip install 'torch==2.9.*' torch_xla==2.9.0 --index-url https://download.pytorch.org/whl/cpu",
            "python -m pip install 'torch==2.9.*' torch_xla==2.9.0 --extra-index-url https://download.pytorch.org/whl/cpu",
        ),
    ],
)
def test_command(line, wanted):
    assert after("run.sh", f"set -e\n{line}\n") == f"set -e\n{wanted}\n"


@pytest.mark.parametrize(
    "text, code",
    [
        ("CUDA_VISIBLE_DEVICES=0 python a.py &\n", "XP860"),
        ("export CUDA_VISIBLE_DEVICES=0\necho ${CUDA_VISIBLE_DEVICES}\n", "XP860"),
        ("if true; then\n  export CUDA_VISIBLE_DEVICES=0\nfi\n", "XP860"),
        ("mpirun -x CUDA_VISIBLE_DEVICES=0 ./a.out\n", "XP860"),
        ("N=$(nvidia-smi -L | wc -l)\n", "XP863"),
        ("srun torchrun --nproc_per_node 8 a.py\n", "XP862"),
        ("python -m torch.distributed.launch \\\n  --nproc_per_node=8 a.py\n", "XP862"),
        ("conda install pytorch -c pytorch\n", "XP858"),
        ("pip install torch==$VERSION torch_xla==2.9.0\n", "XP855"),
        ("pip install flash-attn\n", "XP853"),
        ("docker run --gpus all x\n", "XP859"),
        ("python a.py --gpus 8\n", "XP873"),
        ("python a.py --fp16\n", "XP874"),
    ],
)
def test_command_left(text, code):
    assert after("run.sh", text) == text
    assert [found for found, _ in left("run.sh", text)] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "# CUDA_VISIBLE_DEVICES=0 python a.py\n",
        "echo 'run nvidia-smi and torchrun'\n",
        "cat <<EOF\nexport CUDA_VISIBLE_DEVICES=0\nnvidia-smi\nEOF\n",
        "python a.py --name cuda --note 'device cuda'\n",
        "grep --device cuda-x file\n",
        "unset CUDA_VISIBLE_DEVICES\n",
        "pip install -r requirements.txt\n",
        "readonly num_gpus=8\n",
        "python a.py 2>&1 | tee nvidia.log & wait\n",
        'x="it\'s (broken\n',
    ],
)
def test_scripts_left_alone(text):
    change = migrated("run.sh", text)
    assert change.after.text == text and not change.remaining


def test_dockerfile():
    text = """\
ARG BASE=nvcr.io/nvidia/pytorch:22.04-py3
FROM ${BASE}
ENV CUDA_VISIBLE_DEVICES=0
RUN pip install \\
    torch==2.0.0 \\
    tqdm && \\
    rm -rf /var/cache/pip
CMD ["nvidia-smi"]
"""
    wanted = text.replace("ENV CUDA_VISIBLE_DEVICES=0\n", "").replace("    torch==2.0.0 \\\n", "    'torch==2.9.*' \\\n    'torch_xla[tpu]==2.9.*' \\\n")
    assert after("Dockerfile", text) == wanted
    assert left("Dockerfile", text) == [("XP859", 1)]


def test_makefile():
    text = "N := 8\ntrain:\n\t@CUDA_VISIBLE_DEVICES=0 python train.py \\\n\t\t--device cuda\n\ttorchrun --nproc_per_node=$(N) train.py\n"
    assert after("Makefile", text) == text.replace("CUDA_VISIBLE_DEVICES=0 ", "").replace("--device cuda", "--device xla")
    assert left("Makefile", text) == [("XP862", 5)]


# -- settings


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("device: cuda", "device: xla"),
        ("'device': \"cuda:3\"", "'device': \"xla\""),
        ("- device: cuda", "- device: xla"),
        ("a: {b: [{device: cuda}]}", "a: {b: [{device: xla}]}"),
        ("torch_device:   cuda   # cuda", "torch_device:   xla   # cuda"),
        ("device: !!str cuda", "device: !!str xla"),
        ("device: &dev cuda", "device: &dev xla"),
        ("map_location: cuda", "map_location: cpu"),
        ("trainer.accelerator: gpu", "trainer.accelerator: tpu"),
        ('{"distributed-backend": "nccl",}', '{"distributed-backend": "xla",}'),
    ],
)
def test_yaml(line, wanted):
    assert after("config.yaml", f"{line}\n") == f"{wanted}\n"


@pytest.mark.parametrize(
    "text",
    [
        "device: cpu\n", "device: xla\n", "name: cuda\n", "devices:\n  - cuda-like\n", "text: |\n  device: cuda\n  gpus: 8\n", "text: 'device:\n  cuda'\n",
        "device: cuda\n  more\n", "device: ${oc.env:DEVICE,cuda}\n", "gpus: 0\n", "use_cuda: true\n", "fp16: false\n", "precision: 32\n", "accelerator: auto\n",
        "strategy: ddp\n", "batch_per_device: 8\n", "# device: cuda\n",
    ],
)
def test_yaml_left_alone(text):
    change = migrated("config.yaml", text)
    assert change.after.text == text and not change.remaining


@pytest.mark.parametrize(
    "name, text",
    [
        ("config.yaml", "device: [cuda\n"), ("config.yaml", "device: cuda\n b: 1\n"), ("config.yaml", "{% if gpu %}\ndevice: cuda\n{% endif %}\n"),
        ("config.yaml", "a:\n    device: cuda\n  b: 1\n"), ("config.yaml", "\tdevice: cuda\n"), ("config.yaml", "device: 'cuda\n"),
        ("config.json", '{"device": "cuda"'), ("config.json", '{"device": "cuda",}'), ("config.json", '{// gpu\n"device": "cuda"}'),
        ("train.toml", 'device = "cuda\n'), ("train.toml", "device = cuda\n"),
        ("pyproject.toml", '[project\ndependencies = ["torch"]\n'),
    ],
)
def test_malformed_files_are_named_and_left(name, text):
    change = migrated(name, text)
    assert change.after.text == text
    (finding,) = change.remaining
    assert finding.code == "XP879" and finding.danger is Danger.NONE


def test_json():
    text = '{"device": "cuda", "a": {"backend": "nccl", "gpus": [0, 1]},\n "text": "device: cuda \\" cuda", "fp16": true}\n'
    changed = after("config.json", text)
    assert changed == text.replace('"cuda",', '"xla",', 1).replace('"nccl"', '"xla"')
    assert json.loads(changed)["text"] == json.loads(text)["text"]
    assert left("config.json", text) == [("XP873", 1), ("XP874", 2)]


def test_toml():
    text = 'device = "cuda"  # cuda\n[train]\nfp16 = true\nnote = """\ndevice = "cuda"\n"""\ntrainer = { accelerator = \'gpu\', gpus = 8 }\n'
    assert after("train.toml", text) == text.replace('"cuda"', '"xla"', 1).replace("'gpu'", "'tpu'")
    assert left("train.toml", text) == [("XP874", 3), ("XP873", 7)]


# -- the readers, against those that forget places


YAML = """\
%YAML 1.1
---
plain: value # comment
'quoted key': "a \\" b"
nested:
  - one
  - two: 2
    three: 'it''s'
  - - deep
    - {flow: [x, y], "json":true, empty: , 'k': v w}
same:
- column
block: |
  not: a key
folded: >-
  text

  # text
anchor: &a
  x: 1
alias: *a
tagged: !!str 5
long plain
  # no
: 1
---
second: document
"""


def test_yaml_reader_agrees_with_pyyaml():
    yaml = pytest.importorskip("yaml")
    text = YAML.replace("long plain\n  # no\n: 1\n", "")
    wanted = []

    def collect(node, path):
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                collect(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                collect(value, path)
        elif node.style not in {"|", ">"} and node.value:
            wanted.append((path, node.value))

    for document in yaml.compose_all(text):
        collect(document, ())
    found = [(s.path, s.text.replace("''", "'").replace('\\"', '"')) for s in yaml_values.scalars(text)]
    assert found == [pair for pair in wanted if pair != (("alias", "x"), "1")]
    with pytest.raises(Malformed):
        yaml_values.scalars(YAML)


TOML = """\
a = "x" # c
"b c".d = 'y'
e = [ "1", '2', # c
  [ 3, 4.5 ], { f = true, g.h = 1979-05-27 07:32:00 } ]
[t."u.v"]
w = \"\"\"
q "" \\\" \"\"\"\"
x = '''r'''
[[array]]
y = +1_000
"""


def test_toml_reader_agrees_with_tomllib():
    found: dict[tuple[str, ...], list[str]] = {}
    for value in toml_values.values(TOML):
        assert TOML[value.start : value.end] == value.text
        found.setdefault(value.path, []).append(value.text)
    assert list(found) == [("a",), ("b c", "d"), ("e",), ("e", "f"), ("e", "g", "h"), ("t", "u.v", "w"), ("t", "u.v", "x"), ("array", "y")]
    assert found["e",] == ["1", "2", "3", "4.5"]
    assert found["t", "u.v", "w"] == ['\nq "" \\" "']
    assert tomllib.loads(TOML)["t"]["u.v"]["x"] == found["t", "u.v", "x"][0]


def test_json_reader():
    text = '{"a": [1, "x\\"y", {"b": null}], "c": {}, "d": -1.5e3}'
    assert [(v.path, v.text) for v in json_values.values(text)] == [(("a",), "1"), (("a",), 'x\\"y'), (("a", "b"), "null"), (("d",), "-1.5e3")]


def test_shell_reader():
    text = "if A=1 b 'c d' \\\n  e\"f $(g | h)\"i; then j=$((1 + (2))) & k 2>&1 | l; fi\nm `n; o` # p\n"
    found = [[word.text for word in command.words] for command in shell_words.commands(text)]
    assert found == [["A=1", "b", "'c d'", 'e"f $(g | h)"i'], ["j=$((1 + (2)))"], ["k"], ["l"], ["fi"], ["m", "`n; o`"]]
    assert [command.background for command in shell_words.commands(text)] == [False, True, False, False, False, False]


# -- any input


PIECES = st.sampled_from(
    [*"\n\t{}[]'\"#|=,\\&*!)`;@?%:ü", "  ", ": ", "- ", "\r\n", "---\n", "$(", "<<EOF", "--", "-e ", "torch", "==1.8", "device", "cuda", "gpu", "nccl", "backend"]
    + ["16", "[project]\n", "dependencies", "pip install ", "CUDA_VISIBLE_DEVICES=0 ", "--device "]
)
NAMES = st.sampled_from(
    ["requirements.txt", "pyproject.toml", "setup.cfg", "environment.yml", "config.yaml", "config.json", "train.toml", "run.sh", "Dockerfile", "Makefile"]
    + ["Pipfile", "setup.py"]
)


@settings(max_examples=600, deadline=None)
@given(NAMES, st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_survived(name, text):
    migrated(name, text)


LINES = st.lists(
    st.sampled_from(
        ["torch", "torch==1.8  # c", "torchvision>=0.1", "triton", "numpy # torch", "", "  # note", "-r x.txt", "xformers ; a == 'b'", "flash-attn", "tqdm"]
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_other_lines_survive(lines, newline, final):
    """What is not torch, its kin or a CUDA package is there afterwards, in its order."""
    text = newline.join(lines) + (newline if final else "")
    kept = [line for line in lines if not line.startswith(("torch", "triton", "xformers", "flash-attn"))]
    out = after("requirements.txt", text).split(newline)
    assert [line for line in out if line in kept] == kept + [""] * (len([line for line in out if line in kept]) - len(kept))


# -- whose files


def test_files_of_other_frameworks_programs():
    files = {
        "tf/train.py": "import tensorflow as tf\n", "tf/run.sh": "", "tf/conf/a.yaml": "", "tf/tools/x.py": "import os\n", "tf/tools/x.sh": "",
        "pt/train.py": "from torch import nn\n", "pt/run.sh": "", "both/a.py": "import jax\nimport torch\n", "both/run.sh": "", "requirements.txt": "",
    }
    sources = {Path(name): source(name, text) for name, text in files.items()}
    assert {path.as_posix() for path in of_other_frameworks(sources)} == {"tf/run.sh", "tf/conf/a.yaml", "tf/tools/x.sh"}
    script, code = Path("tf/run.sh"), Path("tf/a.py")
    changes = projectfiles.complete({}, {script: source("tf/run.sh", "nvidia-smi\n"), code: source("tf/a.py", "import jax")}, PLAIN)
    assert changes[script].after.text == "nvidia-smi\n"


def said_of(name: str, text: str) -> list[str]:
    return [finding.message for finding in migrated(name, text).remaining if finding.code == "XP875"]


def test_sharding_settings_name_their_plan():
    zero = '{"gradient_accumulation_steps": 8, "gradient_clipping": 1.0, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}'
    assert said_of("ds_config.json", zero) == [
        'stage 3: ZeRO-3 becomes fsdp.wrap(model, fsdp.make_mesh(), mixed_precision="bf16") of xlaport.runtime; fsdp.clip_grad_norm_(model, 1.0) before the step;'
        " 8 backward passes a step; nothing is offloaded to the host"
    ]
    accelerate = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_transformer_layer_cls_to_wrap: Block\n  fsdp_activation_checkpointing: true\nmixed_precision: bf16\n"
    (said,) = said_of("accelerate.yaml", accelerate)
    assert 'fsdp.wrap(model, fsdp.make_mesh(data=xr.process_count()), policy="Block", mixed_precision="bf16", activation_checkpointing=True)' in said
