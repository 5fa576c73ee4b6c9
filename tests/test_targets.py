"""Other targets than torch_xla: what each row of the map becomes, sample models, and the way over torch_xla."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from support import MAIN, PLAIN, ROOT, change, changes, findings, migrated, program, project

from xlaport import opstatus
from xlaport.config import Settings
from xlaport.engine import FileChange, Selection, contexts, findings_in
from xlaport.findings import Finding, Severity
from xlaport.projectfiles import migrate as migrate_file
from xlaport.ruleset import load
from xlaport.ruleset.examples import blocks_of
from xlaport.source import SourceFile
from xlaport.targets import PROFILES, choice

TPU = {"target": "torchtpu"}
MODELS = Path(__file__).resolve().parents[1] / "sample_models"
PROGRAMS = sorted(path for path in MODELS.iterdir() if path.suffix == ".py" or path.is_dir())
RESIDUE = re.compile(r"torch\.cuda|\.cuda\(|[\"']cuda|nccl|torch_xla|\bxm\.|\bxr\.")

TRAINING = '''
    import torch
    from torch.utils.data import DataLoader

    def main(model, dataset, optimizer, loss_fn):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        torch.backends.cudnn.benchmark = True
        model = model.cuda()
        scaler = torch.cuda.amp.GradScaler()
        fast = torch.compile(model, mode="max-autotune", dynamic=True, backend="inductor")
        for x, y in DataLoader(dataset, batch_size=8, pin_memory=True):
            x, y = x.to(device, non_blocking=True), y.cuda()
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                loss = loss_fn(fast(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        model.load_state_dict(torch.load("best.pt", map_location="cuda"))
'''

PORTED = '''
    import torch
    from torch.utils.data import DataLoader

    def main(model, dataset, optimizer, loss_fn):
        device = torch.device("tpu")
        torch.manual_seed(0)
        model = model.to("tpu")
        scaler = torch.amp.GradScaler("tpu", enabled=False)
        fast = torch.compile(model)
        for x, y in DataLoader(dataset, batch_size=8):
            x, y = x.to(device, non_blocking=True), y.to("tpu")
            optimizer.zero_grad()
            with torch.autocast("tpu", dtype=torch.bfloat16):
                loss = loss_fn(fast(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.accelerator.synchronize()
        model.load_state_dict(torch.load("best.pt", map_location="cpu"))
'''


def lines(text: str) -> list[str]:
    """Code without blank lines and the prelude about parameters that a move replaces."""
    return [line for line in text.splitlines() if line.strip() and "swap" not in line]


def test_training_loop():
    after = migrated(program(TRAINING), **TPU)
    ast.parse(after)
    assert lines(after) == lines(program(PORTED))


def test_distributed_program_keeps_its_wrapper():
    after = migrated(program('''
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp
        from torch.nn.parallel import DistributedDataParallel as DDP

        def worker(rank, world):
            dist.init_process_group("nccl", rank=rank, world_size=world)
            torch.cuda.set_device(rank)
            model = DDP(torch.nn.Linear(2, 2).to(rank), device_ids=[rank])
            loss = model(torch.ones(2, 2).to(rank)).sum()
            loss.backward()

        if __name__ == "__main__":
            world = torch.cuda.device_count()
            mp.spawn(worker, args=(world,), nprocs=world)
    '''), **TPU)
    assert 'dist.init_process_group("tpu_dist", rank=rank, world_size=world)' in after
    assert "set_device" not in after and "device_ids" not in after and "DDP(" in after
    assert "torch.tpu.distributed.set_tpu_launch_env(nproc_per_node=world)\n    mp.spawn(worker" in after
    assert "world = torch.accelerator.device_count()" in after


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_sample_models(path):
    """They parse, stay as they are in a second run, and say CUDA only where the report names it."""
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    files = {file.relative_to(MODELS).as_posix(): file.read_text(encoding="utf-8") for file in found}
    first = changes(files, **TPU)
    for item in first.values():
        assert not item.refused
        ast.parse(item.after.text)
        reported = {finding.location.line for finding in item.remaining}
        left = [number for number, line in enumerate(item.after.text.splitlines(), 1) if RESIDUE.search(line.partition("#")[0]) and number not in reported]
        assert not left, [item.after.text.splitlines()[number - 1] for number in left]
        assert "sync()" not in item.after.text.replace("torch.accelerator.", "")
    again = changes({name: item.after.text for name, item in first.items()}, **TPU)
    assert {name: item.after.text for name, item in again.items()} == {name: item.after.text for name, item in first.items()}


def test_over_torch_xla_comes_out_the_same():
    """But for what the first port settled: the scaler's place, and the choice of a host device."""
    source = program('''
        import torch

        def main(model, loader, optimizer, loss_fn):
            device = torch.device("cuda")
            model = model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
    ''')
    over = migrated(migrated(source), source="torch_xla", **TPU)
    assert lines(over) == lines(migrated(source, **TPU))


def test_requirements():
    assert requirements("torch==2.3.1\ntorchvision\n") == "torch>=2.11,<=2.15\ntorch-tpu==0.2.*\ntorchvision>=0.26\n"
    assert requirements("torch==2.12.*\n") == "torch==2.12.*\ntorch-tpu==0.2.*\n"


@pytest.mark.parametrize("spec", ["==2.11.0", "==2.15.*", "~=2.12.1", ">=2.12,<2.14", ">=2.11,<=2.15"])
def test_releases_in_the_range_stay(spec):
    assert requirements(f"torch{spec}\n") == f"torch{spec}\ntorch-tpu==0.2.*\n"


@pytest.mark.parametrize("spec", ["==2.10.1", "==2.16.0", "~=2.12", "~=2.16.1", ">=2.12", ">=2.9,<2.14", "<=2.14", ">=2.12,<3", "==2.12.0+cu128"])
def test_releases_out_of_the_range_are_pinned(spec):
    assert requirements(f"torch{spec}\n") == "torch>=2.11,<=2.15\ntorch-tpu==0.2.*\n"


def requirements(text: str) -> str:
    return file_change("requirements.txt", text).after.text


def file_change(name: str, text: str, target: str = "torchtpu") -> FileChange:
    """What `migrate` makes of a project's file that is no Python."""
    source = SourceFile.from_bytes(Path(name), name, text.encode())
    return migrate_file(source, Selection(Settings(target=target), PLAIN))


def left(name: str, text: str, target: str = "torchtpu") -> dict[str, str]:
    """Code -> the sentence with which it is left to a person."""
    return {finding.code: finding.message for finding in file_change(name, text, target).remaining}


def test_variables_that_nothing_reads_any_more():
    assert file_change("run.sh", "export TPU_LAUNCH_BLOCKING=1\n").after.text == "export TORCH_TPU_LAUNCH_BLOCKING=1\n"
    assert file_change("Dockerfile", "FROM python:3.11\nENV TPU_LAUNCH_BLOCKING=1\n").after.text == "FROM python:3.11\nENV TORCH_TPU_LAUNCH_BLOCKING=1\n"
    assert not left("run.sh", "export TPU_LAUNCH_BLOCKING=1\n", "torch_xla")


def test_scripts_speak_of_the_target():
    text = "torchrun --nproc_per_node=8 train.py\nnvidia-smi -l 1\n"
    tpu, xla = left("run.sh", text), left("run.sh", text, "torch_xla")
    assert "with the environment that torch.tpu.distributed.set_tpu_launch_env sets" in tpu["XP862"]
    assert "migrated to torch_xla.launch" in xla["XP862"]
    assert "a package of its own" in tpu["XP863"] and "torch_xla[tpu]" in xla["XP863"]
    assert file_change("run.sh", "CUDA_VISIBLE_DEVICES=-1 python train.py\n").after.text == "TORCH_DEVICE_BACKEND_AUTOLOAD=0 python train.py\n"


def test_a_sharding_plan_has_the_sentence_of_its_page():
    text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
    assert "do not know TorchTPU" in left("accelerate.yaml", text)["XP875"]
    assert "fsdp.wrap" in left("accelerate.yaml", text, "torch_xla")["XP875"]


def test_project_files_of_torchax_are_left_alone():
    done = file_change("requirements.txt", "torch==2.3.1+cu121\nnvidia-cublas-cu12\n", "torchax")
    assert done.after.text == done.before.text and not done.remaining


def test_every_section_that_edits_has_an_example():
    for rule in load.builtin():
        there = rule.differing.get("torchtpu")
        if there is not None and there.check and rule.grade.value != "manual":
            edited = {block.target for block in blocks_of(rule.path) if block.kind in ("before", "after")}
            assert "torchtpu" in edited or rule.code in WITHOUT, rule.path


WITHOUT = {"XP128"}
"""What only reports there."""


@pytest.mark.parametrize(
    "text, target, wanted",
    [
        ("torch==2.12.0\n", "torch_xla", "suits the target torchtpu"),
        ("torch==2.9.1\n", "torchtpu", "suits the target torch_xla"),
        ("torch>=2.12\n", "torchtpu", ""),
        ("torch==2.3.1\n", "torchtpu", ""),
    ],
)
def test_the_report_says_which_target_suits(text, target, wanted):
    said = choice.sentence(choice.pinned([text]), PROFILES[target], PROFILES.values())
    assert wanted in said and bool(said) == bool(wanted)


def test_kernels_of_the_device():
    lists = json.loads((opstatus.DATA / "op_kernels_torchtpu_0.2.json").read_text(encoding="utf-8"))["aten"]
    kinds = {name: kind for kind, names in lists.items() for name in names}
    assert kinds["add"] == kinds["_fused_adamw"] == "kernel"
    assert kinds["dropout"] == "composite"
    assert kinds["huber_loss"] == kinds["linalg_eig"] == "none"
    missing = opstatus.missing("torchtpu", "0.2")
    assert missing["torch.nn.functional.huber_loss"].always and "torch.add" not in missing
    assert not {operator for entry in missing.values() for operator in (*entry.always, *entry.sometimes) if kinds[operator] == "kernel"}


def test_an_operator_without_a_kernel_is_an_error_there_alone():
    text = "import torch.nn.functional as F\n\ndef loss(x, y, device='cuda'):\n    return F.huber_loss(x.to(device), y)\n"
    assert [f.severity.value for f in findings(text, **TPU) if f.code == "XP520"] == ["error"]
    assert not [f for f in findings(text) if f.code == "XP520"]


def test_torchax_is_reported_and_never_written():
    done = change("import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\nmodel(torch.ones(2, 2).cuda()).sum().backward()\n", target="torchax")
    assert done.after.text == done.before.text
    assert {finding.code for finding in done.remaining} == {"XP990"}
    assert not done.applied and "make_train_step" in PROFILES["torchax"].only_reports
    assert not choice.sentence((2, 10), PROFILES["torchtpu"], PROFILES.values()), "a target that only reports is not recommended"


def test_each_fact_of_a_profile_has_a_source():
    spoken = {"name", "title", "versions", "package", "stated", "only_reports"}
    for profile in PROFILES.values():
        given = {field.name for field in fields(profile) if getattr(profile, field.name) != field.default and field.name not in spoken}
        assert not {name for name in given if getattr(profile, name)} - profile.stated.keys(), profile.name


def test_packages_of_the_other_target_are_left_out():
    assert requirements("torch==2.9.0\ntorch_xla[tpu]==2.9.0\nnumpy\n") == "torch>=2.11,<=2.15\ntorch-tpu==0.2.*\nnumpy\n"
    assert requirements("torch_xla[tpu]==2.9.0\n") == "torch-tpu==0.2.*\n"


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_hole_that_is_called_like_a_word_stays_a_hole(name):
    target = PROFILES[name]
    word = next(iter(target.spell))
    assert target.expand("f({" + word + "})") == f"f({target.spell[word]})"
    assert target.expand("f({" + word + "})", holes={word: None}) == "f({" + word + "})"


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_templates_of_a_rule_keep_their_holes(name):
    """Such as the `{reduction}` of a loss, and the `{rank}` of a rule that takes it from the program."""
    settings = Settings(target=name)
    context = contexts(project("print(1)\n"), ROOT / MAIN, settings)(load.builtin()[0])
    call = next(iter(context.facts.of(ast.Call)))
    word = next(iter(PROFILES[name].spell))
    template, holes = "f({" + word + "})", {word: call.args[0]}
    for ops in (context.replace(call, template, **holes), context.replace_statement(call.parent, template, **holes), context.insert(call.parent, "before", template, **holes)):
        assert (getattr(ops[0], "template", "") or ops[0].code) == template


CAPTURED = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y * 2 if y.sum() > 0 else y

{after}
"""


@pytest.mark.parametrize(
    "after, severity",
    [
        ("model = Net().to('cuda')", Severity.NOTE),
        ("model = torch.compile(Net().to('cuda'))", Severity.WARNING),
        ("net = Net()\nmodel = torch.compile(model=net, fullgraph=True)", Severity.WARNING),
        ("model = Net().cuda()\nmodel.compile()", Severity.WARNING),
        ("def other(x):\n    return x\nmodel, other = Net().cuda(), torch.compile(other)", Severity.NOTE),
        ("model = torch.compile(mode='reduce-overhead')(Net().cuda())", Severity.WARNING),
        ("net = Net()\nmodel = net.to('cuda').bfloat16()\nmodel = torch.compile(model)", Severity.WARNING),
        ("model = Net().cuda()\n" + 12 * "model = model.float()\n" + "model = torch.compile(model)", Severity.WARNING),
        ("class Run:\n    def __init__(self):\n        self.model = Net().cuda()\n        self.model = torch.compile(self.model)", Severity.WARNING),
        ("model = Net().cuda()\nmodel.forward = torch.compile(model.forward)", Severity.WARNING),
        ("class Run:\n    def forward(self, x):\n        return x\n    def __init__(self):\n        self.step = torch.compile(self.forward)\nNet().cuda()", Severity.NOTE),
        ("import re\nwords = re.compile(str(Net()))", Severity.NOTE),
        ("code = compile(Net().cuda(), '', 'exec')", Severity.NOTE),
        ("model = Net().cuda()\nmodel.compile(optimizer='adam', loss='mse')", Severity.NOTE),
        ("model = Net().cuda()\nmodel.compile('adam')", Severity.NOTE),
        ("model = torch.compile(Net().cuda(), disable=True)", Severity.NOTE),
    ],
)
def test_what_torch_compile_captures_is_graver(after, severity):
    found = [one for one in linted(CAPTURED.format(after=after)) if one.code == "XP401"]
    assert [one.severity for one in found] == [severity]
    assert ("in code that torch.compile captures" in found[0].message) == (severity is Severity.WARNING)


def test_a_compile_of_its_own_captures_nothing():
    own = CAPTURED.replace("    def forward", "    def compile(self):\n        self.ready = True\n\n    def forward")
    found = [one for one in linted(own.format(after="model = Net().cuda()\nmodel.compile()")) if one.code == "XP401"]
    assert [one.severity for one in found] == [Severity.NOTE]


STEPS = """
def train(model, loader, optimizer):
    for x in loader:
        loss = scale(model(x.to("cuda"))).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("decorator", ["@torch.compile", "@torch.compile(backend='tpu')", "@partial(torch.compile, fullgraph=True)"])
def test_a_decorated_function_is_captured(decorator):
    text = f"import torch\nfrom functools import partial\n\n{decorator}\ndef scale(y):\n    return y if y.sum() > 0 else -y\n\n" + STEPS
    assert [one.severity for one in linted(text) if one.code == "XP401"] == [Severity.WARNING]


READS = """
import torch

class Net({base}):
    def forward(self, x):
        return self.told(torch.relu(x))

    {decorator}
    def told(self, y):
        print(y.sum().item())
        return y

    def training_step(self, batch):
        loss = self.forward(batch.to("cuda")).mean()
        print(loss.item())
        return loss

model = torch.compile(Net().cuda())
"""


@pytest.mark.parametrize(
    "base, decorator, read",
    [
        ("torch.nn.Module", "", [True, False]),
        ("torch.nn.Module", "@torch.compiler.disable", [False, False]),
        ("torch.nn.Module", "@torch._dynamo.disable(recursive=False)", [False, False]),
        ("pytorch_lightning.LightningModule", "", [True, True]),
    ],
)
def test_of_a_compiled_module_what_its_forward_reaches_is_captured(base, decorator, read):
    text = READS.format(base=base, decorator=decorator).replace("import torch\n", "import torch\nimport pytorch_lightning\n")
    found = sorted((one for one in linted(text) if one.code == "XP501"), key=lambda one: one.location.line)
    assert ["torch.compile captures" in one.message for one in found] == read


def linted(text: str) -> list[Finding]:
    return findings_in(project(text), ROOT / MAIN, Settings(**TPU), lint=True)


@pytest.mark.parametrize(("origin", "named"), [("cuda", ["XP102", "XP173", "XP173"]), ("torch_xla", ["XP102", "XP170", "XP171"])])
def test_code_for_torch_xla_is_named_where_it_is_not_converted(origin, named):
    text = "import torch\nimport torch_xla.core.xla_model as xm\n\ndevice = xm.xla_device() if 1 < len(__file__) else torch.device('cuda')\n"
    found = findings_in(project(text), ROOT / MAIN, Settings(**TPU, source=origin), lint=True)
    assert sorted(one.code for one in found) == named
