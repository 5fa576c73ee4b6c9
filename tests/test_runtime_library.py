"""`xlaport migrate --runtime-library`: whole programs as they come out, and the plan of the report."""

from __future__ import annotations

import pytest
from support import program

from xlaport import cli

FSDP1 = program("""
    import functools
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    def main(model, batches, base):
        dist.init_process_group("nccl")
        model = FSDP(
            model, auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=1000),
            sharding_strategy=ShardingStrategy.HYBRID_SHARD, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16),
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=base * dist.get_world_size())
        for x in batches:
            x = x.cuda()
            model(x).sum().backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
    """)

PORTED_FSDP1 = program("""
    import functools
    import torch
    import torch.distributed as dist
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr
    import torch_xla.distributed.xla_backend
    from xlaport.runtime import fsdp

    # One process drives all chips of a host; arrays are sharded over them by annotation.
    xr.use_spmd()

    def main(model, batches, base):
        dist.init_process_group("gloo", init_method="xla://")
        fsdp_mesh = fsdp.make_mesh(data=xr.process_count())
        model = fsdp.wrap(model, fsdp_mesh, policy=int(1000), mixed_precision="bf16")
        optimizer = torch.optim.SGD(model.parameters(), lr=base * dist.get_world_size())
        for x in fsdp.shard_loader(batches, fsdp.current_mesh(), sync=False):
            x = x.to(xm.xla_device())
            model(x).sum().backward()
            fsdp.clip_grad_norm_(model, 1.0)
            optimizer.step()
            torch_xla.sync()
    """)

DDP = program("""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    class Trainer:

        def __init__(self, model, dataset, rank):
            self.loader = DataLoader(dataset, batch_size=8)
            self.model = DistributedDataParallel(model.to(rank), device_ids=[rank])
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def epoch(self):
            for x, y in self.loader:
                loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            torch.save(self.model.module.state_dict(), "model.pt")
    """)

PORTED_DDP = program("""
    import torch
    from torch.utils.data import DataLoader
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr
    from xlaport.runtime import fsdp

    # One process drives all chips of a host; arrays are sharded over them by annotation.
    xr.use_spmd()
    # Moving a module to XLA makes new parameters; swapping them in place keeps optimizers and tied weights attached.
    torch.__future__.set_swap_module_params_on_conversion(True)

    class Trainer:

        def __init__(self, model, dataset, rank):
            self.loader = DataLoader(dataset, batch_size=8)
            fsdp_mesh = fsdp.make_mesh(fsdp=1, data=xr.global_runtime_device_count())
            self.model = fsdp.wrap(model.to(xm.xla_device()), fsdp_mesh, policy=None)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def epoch(self):
            for x, y in fsdp.shard_loader(self.loader, fsdp.current_mesh(), sync=False):
                loss = torch.nn.functional.mse_loss(self.model(x.to(xm.xla_device())), y.to(xm.xla_device()))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                torch_xla.sync()
            xm.save(self.model.state_dict(), "model.pt")
    """)

PLAN = (
    "| wrapper | FSDP | one process a host; fsdp.wrap |",
    "| mesh | `ShardingStrategy.HYBRID_SHARD` | a copy of the model on each host, over its chips |",
    "| units | `functools.partial(size_based_auto_wrap_policy, min_num_params=1000)` | by 1000 |",
    "| precision | `MixedPrecision(param_dtype=torch.bfloat16)` | bfloat16, with float32 weights in the optimizer |",
    "| clipping | `model.clip_grad_norm_(1.0)` | fsdp.clip_grad_norm\\_: the norm of all gradients |",
    "| learning rate | scaled by the number of ranks | scaled by that of hosts",
)


@pytest.mark.parametrize("source, port", [(FSDP1, PORTED_FSDP1), (DDP, PORTED_DDP)], ids=["fsdp1", "ddp"])
def test_whole_programs(here, source, port):
    (here / "train.py").write_text(source)
    assert cli.main(["migrate", "train.py", "--runtime-library"]) == 0
    assert (here / "train.py").read_text() == port
    assert cli.main(["migrate", "train.py", "--runtime-library", "--check"]) == 0


def test_a_wrap_under_a_condition_stays_there(here):
    (here / "train.py").write_text(program("""
        import torch
        from torch.distributed.fsdp import fully_shard

        def build(model, args):
            if args.shard:
                for layer in model.layers:
                    fully_shard(layer)
                fully_shard(model)
            if args.adam:
                optimizer = torch.optim.Adam(model.parameters())
            else:
                optimizer = torch.optim.SGD(model.parameters())
            return optimizer
        """))
    assert cli.main(["migrate", "train.py", "--runtime-library"]) == 0
    wanted = "    if args.shard:\n        fsdp_mesh = fsdp.make_mesh()\n        fsdp.wrap(model, fsdp_mesh)\n    if args.adam:\n"
    assert wanted in (here / "train.py").read_text()


ARGUMENTS = {
    "None, ShardingStrategy.HYBRID_SHARD, None, functools.partial(size_based_auto_wrap_policy, min_num_params=1000), None, MixedPrecision(torch.bfloat16)":
        'policy=int(1000), mixed_precision="bf16"',
    "None, ShardingStrategy.HYBRID_SHARD, auto_wrap_policy=size_based_auto_wrap_policy": "policy=100_000_000",
    "None, ShardingStrategy.HYBRID_SHARD, None, size_based_auto_wrap_policy": "policy=100_000_000",
}


@pytest.mark.parametrize("given, wrap", ARGUMENTS.items(), ids=["all", "policy by name", "policy"])
def test_arguments_by_position(here, given, wrap):
    start, _, rest = FSDP1.partition("FSDP(\n")
    _, _, rest = rest.partition("\n    )\n")
    (here / "train.py").write_text(f"{start}FSDP(model, {given})\n{rest}")
    cli.main(["migrate", "train.py", "--runtime-library", "--report", "report.md"])
    assert f"model = fsdp.wrap(model, fsdp_mesh, {wrap})\n" in (here / "train.py").read_text()
    assert "fsdp.make_mesh(data=xr.process_count())" in (here / "train.py").read_text()
    assert "| mesh | `ShardingStrategy.HYBRID_SHARD` | a copy of the model on each host" in (here / "report.md").read_text()


SPELLED = program("""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor

    def main(model, batches):
        dist.init_process_group("nccl")
        mesh = init_device_mesh("cuda", (4,))
        fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in batches:
            model(x.cuda()).sum().backward()
            for p in model.parameters():
                if isinstance(p.grad, DTensor):
                    p.grad = p.grad.full_tensor()
            optimizer.step()
        dcp.save({"model": model.state_dict()}, checkpoint_id="last")
    """)
OTHERWISE = (
    ("from torch.distributed.device_mesh import init_device_mesh", "from torch.distributed import init_device_mesh"),
    ("from torch.distributed.fsdp import MixedPrecisionPolicy,", "from torch.distributed._composable.fsdp import MixedPrecisionPolicy,"),
    ("from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard", "from torch.distributed.fsdp import MixedPrecisionPolicy\nfrom torch.distributed._composable.fsdp.fully_shard import fully_shard"),
    ("from torch.distributed.tensor import DTensor", "from torch.distributed._tensor import DTensor"),
    ("import torch.distributed.checkpoint as dcp", "import torch.distributed.checkpoint.state_dict_saver as dcp"),
)


@pytest.mark.parametrize("options", [[], ["--runtime-library"]], ids=["annotated", "library"])
@pytest.mark.parametrize("plain, other", OTHERWISE, ids=[other.split()[-3] for _, other in OTHERWISE])
def test_older_and_other_names_of_the_same_functions(here, options, plain, other):
    ports = []
    for text in (SPELLED, SPELLED.replace(plain, other)):
        assert text == SPELLED or other in text
        (here / "train.py").write_text(text)
        cli.main(["migrate", "train.py", *options])
        ports.append((here / "train.py").read_text())
    main = [port.partition("def main(")[2] for port in ports]
    assert main[0] == main[1] and "mesh = " not in main[0].replace("fsdp_mesh = ", "")


@pytest.mark.parametrize("wraps", [
    "models = [FSDP(part) for part in parts]", "models = [fully_shard(part) for part in parts]", "models = (lambda part: FSDP(part), *parts)",
    "return {name: FSDP(part) for name, part in parts}",
])
def test_wraps_that_a_statement_makes_many_of_are_left(here, wraps):
    text = f"from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard\n\ndef build(parts):\n    {wraps}\n"
    (here / "train.py").write_text(text)
    cli.main(["migrate", "train.py"])
    assert (here / "train.py").read_text() == text
    cli.main(["migrate", "train.py", "--runtime-library"])
    assert "fsdp.wrap(part, fsdp" in (here / "train.py").read_text()


def test_report_names_the_plan(here):
    (here / "train.py").write_text(FSDP1)
    cli.main(["migrate", "train.py", "--runtime-library", "--out", "port", "--report", "report.md"])
    report = (here / "report.md").read_text()
    assert [row for row in PLAN if row not in report] == []


def test_a_port_imports_nothing_of_xlaport_without_it(here):
    (here / "train.py").write_text(FSDP1)
    cli.main(["migrate", "train.py", "--out", "port", "--report", "report.md"])
    assert "| wrapper | FSDP | one process a host; parameters and batches marked |" in (here / "report.md").read_text()
    assert "xlaport" not in (here / "port" / "train.py").read_text()


@pytest.mark.parametrize("others", [["--distributed", "mp"], ["--target", "torchtpu"]])
def test_it_is_for_sharded_programs(here, capsys, others):
    (here / "train.py").write_text(FSDP1)
    assert cli.main(["migrate", "train.py", "--runtime-library", *others]) == 2
    assert "the runtime library is for sharded programs" in capsys.readouterr().err


def test_a_sharded_program_is_started_plainly(here):
    """With replicas torchrun stays: it may start a process a chip."""
    script = "srun torchrun --standalone \\\n  --nproc_per_node=4 src/train.py --steps 3\npython -m torch.distributed.launch --nproc_per_node 4 src/train.py\n"
    (here / "src").mkdir()
    for text, wanted in ((FSDP1, "srun python src/train.py --steps 3\npython src/train.py\n"), (DDP, script)):
        (here / "src" / "train.py").write_text(text)
        (here / "run.sh").write_text(script)
        assert cli.main(["migrate", "."]) == 0
        assert (here / "run.sh").read_text() == wanted


def test_setting_of_a_project(here):
    (here / "train.py").write_text(DDP)
    (here / "pyproject.toml").write_text("[tool.xlaport]\nruntime-library = true\n")
    assert cli.main(["migrate", "train.py"]) == 0
    assert "fsdp.wrap(" in (here / "train.py").read_text()
    (here / "pyproject.toml").write_text("[tool.xlaport]\nruntime-library = 'yes'\n")
    assert cli.main(["migrate", "train.py"]) == 2
