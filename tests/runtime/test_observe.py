"""The observer sees what it is there to see: a port that runs and silently does not train, above all."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from observe import Observation, observe

XLA_CPU = {"PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1", "XLA_FLAGS": "--xla_backend_optimization_level=0"}


@pytest.fixture
def run(tmp_path: Path):
    def run_program(program: str, **options) -> Observation:
        script = tmp_path / "program.py"
        script.write_text(dedent(program), encoding="utf-8")
        return observe(script, cwd=tmp_path, **options)

    return run_program


def test_plain_program(run) -> None:
    seen = run(
        """
        import torch
        weight, still = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight, still], lr=0.5)
        for step in range(3):
            loss = (weight * weight).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item()}")
            weight.data.mul_(0.5).add_(0.5)
        """
    )
    assert seen.exit_code == 0, seen.errors
    assert seen.losses == tuple(seen.printed.values()) == (2.0, 0.5, 0.5)
    assert (seen.steps, seen.changed, seen.parameters) == (3, 1, 2)
    assert (seen.loss_devices, seen.parameter_devices) == (("cpu",), ("cpu",))
    assert not seen.imported_torch_xla


def test_error_keeps_what_was_seen(run) -> None:
    seen = run(
        """
        import torch
        weight = torch.ones(2, requires_grad=True)
        weight.sum().backward()
        raise ValueError("no more data")
        """
    )
    assert seen.exit_code == 1
    assert "no more data" in seen.errors
    assert seen.losses == (2.0,)


def test_scaled_loss_is_recorded_unscaled(run) -> None:
    seen = run(
        """
        import torch
        weight = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        """
    )
    assert seen.losses == (2.0,)
    assert seen.changed == 1


def test_backward_under_a_default_device_counts_once(run) -> None:
    seen = run(
        """
        import torch
        torch.set_default_device("cpu")
        torch.ones(2, requires_grad=True).sum().backward()
        """
    )
    assert seen.losses == (2.0,)


def test_started_process_is_observed(run) -> None:
    seen = run(
        """
        import torch
        import torch.multiprocessing as mp

        def worker(rank):
            weight = torch.ones(2, requires_grad=True)
            weight.sum().backward()
            torch.optim.SGD([weight], lr=0.5).step()

        if __name__ == "__main__":
            mp.spawn(worker, nprocs=1)
        """
    )
    assert seen.exit_code == 0, seen.errors
    assert (seen.losses, seen.steps, seen.changed) == ((2.0,), 1, 1)


def test_shim_turns_cuda_into_cpu(run) -> None:
    seen = run(
        """
        import torch
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        torch.cuda.set_device(0)
        torch.cuda.manual_seed_all(1)
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record(); stop.record(); torch.cuda.synchronize()
        assert start.elapsed_time(stop) >= 0

        model = torch.nn.Linear(2, 1).cuda(0).to("cuda:0").to(torch.device("cuda", 0))
        x = torch.cuda.FloatTensor([1.0, 2.0]) + torch.zeros(2, device="cuda").pin_memory().cuda(non_blocking=True)
        x = x.type(torch.cuda.DoubleTensor).type("torch.cuda.FloatTensor").to(0)
        torch.save(model.state_dict(), "model.pt")
        model.load_state_dict(torch.load("model.pt", map_location="cuda:0"))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(x).sum().backward()
        optimizer.step()
        """,
        cpu_shim=True,
    )
    assert seen.exit_code == 0, seen.errors
    assert (seen.loss_devices, seen.parameter_devices, seen.changed) == (("cpu",), ("cpu",), 2)


STALE_OPTIMIZER = """
    import torch
    import torch_xla
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("xla")
    for step in range(3):
        loss = model(torch.ones(1, 2, device="xla")).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
"""


FRESH_OPTIMIZER = STALE_OPTIMIZER.replace("    optimizer =", "    model.to('xla')\n    optimizer =")


def test_port_that_does_not_train_shows(run) -> None:
    seen = run(STALE_OPTIMIZER, env=XLA_CPU)
    assert seen.exit_code == 0, seen.errors
    assert (seen.loss_devices, seen.parameter_devices) == (("xla",), ("cpu",))
    assert (seen.changed, seen.parameters) == (0, 2)


def test_graphs_are_counted(run) -> None:
    seen = run(FRESH_OPTIMIZER.replace("range(3)", "range(5)"), env=XLA_CPU)
    assert seen.changed == 2
    assert seen.executions >= 5
    assert len(seen.compilations) == 5
    assert seen.compiled_after(0) > 0 == seen.compiled_after(3)
    assert not seen.fallbacks


def test_new_shapes_compile_again(run) -> None:
    program = FRESH_OPTIMIZER.replace("range(3)", "range(8)").replace("torch.ones(1, 2", "torch.ones(1 + step, 2")
    seen = run(program, env=XLA_CPU)
    assert seen.compiled_after(4) >= 3


def test_host_operation_shows_as_fallback(run) -> None:
    seen = run(
        """
        import torch
        import torch_xla
        x = torch.tensor([1.0, 0.0, 2.0], device="xla", requires_grad=True)
        x[x.detach().nonzero()].sum().backward()
        torch_xla.sync()
        """,
        env=XLA_CPU,
    )
    assert "aten::nonzero" in seen.fallbacks
