"""Programs run under watch: how they end, what is told of it, and that nothing they started lives on. None imports torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from xlaport import cli
from xlaport.errors import UserError
from xlaport.runtime import program as programs
from xlaport.runtime.job import Job
from xlaport.runtime.program import ALONE, ROOT, Program, Ran

LIMIT = 30.0
linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")


def written(folder: Path, code: str, name: str = "train.py") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(code), encoding="utf-8")
    return file


def ran(folder: Path, code: str, *arguments: str, limit: float = LIMIT) -> Ran:
    return programs.run(Program(written(folder, code), arguments, folder=folder), job(folder), limit)


def job(folder: Path) -> Job:
    return Job(folder=str(folder / "job"), root=str(ROOT))


def alive(number: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(number: int) -> bool:
    """Whether a process ends in time: one that was killed a moment ago may still be on its way."""
    deadline = time.monotonic() + 10
    while alive(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(number)


@pytest.mark.parametrize(
    "code, expected, good",
    [
        ("print('done')", ("ended", 0), True),
        ("import sys; sys.exit(0)", ("ended", 0), True),
        ("import sys; sys.exit(3)", ("exit", 3), False),
        ("import sys; sys.exit('no data')", ("exit", 1), False),
        ("import os; os._exit(4)", ("exit", 4), False),
        ("import os; os.abort()", ("killed", -signal.SIGABRT), False),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ("killed", -signal.SIGKILL), False),
        ("1 / 0", ("error", 1), False),
        ("raise KeyboardInterrupt", ("killed", -signal.SIGINT), False),
    ],
)
def test_how_a_program_ends(here, code, expected, good):
    result = ran(here, code)
    status = "ended" if result.status == "exit" and result.code == 0 else result.status
    assert (status, result.code) == expected
    assert result.good is good


@pytest.mark.parametrize(
    "code, reason",
    [
        ("x = 1\n1 / 0", "ZeroDivisionError: division by zero at {here}/train.py:2"),
        ("import sys; sys.exit('no data')", "no data"),
        ("import sys; sys.exit(3)", "exit status 3"),
        ("def f(:", "SyntaxError: invalid syntax (train.py, line 1)"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package' at {here}/train.py:1"),
        ("open('no/such/file')", "FileNotFoundError: [Errno 2] No such file or directory: 'no/such/file' at {here}/train.py:1"),
        ("import traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()\nprint('done with errors'); raise SystemExit(3)", "ZeroDivisionError: division by zero"),
        ("import traceback\ntry: assert 1 > 2\nexcept AssertionError: traceback.print_exc()\nprint('bye'); raise SystemExit(3)", "AssertionError"),
        ("print('ImportError: no apex, going on'); raise SystemExit('train.py: error: no --lr')", "train.py: error: no --lr"),
        ("print('an Error: none of ours'); raise SystemExit(3)", "an Error: none of ours"),
        ("print('  ValueError: quoted by it'); print('bye'); raise SystemExit(3)", "bye"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("import os; os.write(2, b'Expected 2 threads to join the rendezvous, but only 1 of them arrived'); os.abort()", ALONE),
        ("raise ValueError('first line\\nsecond line')", "ValueError: first line at {here}/train.py:1"),
        ("import flash_attn", "needs the package flash_attn, which has no form without CUDA at {here}/train.py:1"),
        ("import apex.optimizers", "needs the package apex, which has no form without CUDA at {here}/train.py:1"),
    ],
)
def test_the_reason_is_one_line(here, code, reason):
    assert ran(here, code).reason() == reason.format(here=here)


def test_its_own_traceback_is_shown(here):
    assert "Traceback (most recent call last)" in ran(here, "1 / 0").output


def test_the_limit_ends_it(here):
    started = time.monotonic()
    result = ran(here, "import time\nwhile True: time.sleep(1)", limit=0.5)
    assert (result.status, result.reason()) == ("timeout", "still running after 0 s (--limit)") or result.reason().startswith("still running after 1 s")
    assert time.monotonic() - started < 5


def test_one_that_ignores_requests_is_ended(here, monkeypatch):
    monkeypatch.setattr(programs, "GRACE", 0.3)
    result = ran(here, "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)", limit=0.5)
    assert result.status == "timeout"


CHILDREN = """
    import subprocess, sys, time
    code = "import time; time.sleep(100)"
    children = [subprocess.Popen([sys.executable, "-c", code]), subprocess.Popen([sys.executable, "-c", code], start_new_session=True)]
    open("pids", "w").write(" ".join(str(child.pid) for child in children))
    {then}
"""


@linux
@pytest.mark.parametrize("then", ["pass", "time.sleep(100)", "1 / 0", "import os; os.abort()"], ids=["ends", "hangs", "fails", "aborts"])
def test_no_child_is_left(here, then):
    ran(here, CHILDREN.format(then=then), limit=8)  # a loaded machine takes seconds to start three processes
    pids = [int(word) for word in (here / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_us_ends_the_program(here, number):
    script = written(here, CHILDREN.format(then="print('here', flush=True); time.sleep(100)"))
    runner = written(
        here,
        f"""
        from pathlib import Path
        from xlaport.runtime import program as programs
        from xlaport.runtime.job import Job
        programs.run(programs.Program(Path({str(script)!r})), Job({str(here / "job")!r}, {str(ROOT)!r}), None, show=True)
        """,
        "runner.py",
    )
    with subprocess.Popen([sys.executable, str(runner)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:  # nohup has it ignored
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        process.wait(10)
    assert process.returncode != 0
    assert all(gone(int(word)) for word in (here / "pids").read_text().split())


def test_ctrl_c_reaches_the_program(here):
    """It may save what it has."""
    script = written(
        here,
        """
        import time
        try:
            print("here", flush=True)
            time.sleep(100)
        except KeyboardInterrupt:
            open("saved", "w").close()
        """,
    )
    child = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    programs.ask(child, signal.SIGINT)
    child.stdout.close()
    assert child.returncode == 0
    assert (here / "saved").exists()


def test_megabytes_of_output_are_cut(here):
    result = ran(here, "for i in range(30_000): print('x' * 100)\nprint('the end')")
    assert result.good
    assert len(result.output) <= programs.KEPT
    assert result.output.endswith("the end\n")


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import sys; sys.stdout = sys.stderr = None",
        "import os; os.close(1); os.close(2)",
        "import os; os.chdir('/')",
        "import sys; assert sys.stdin.read() == ''",
        "import sys; assert sys.argv[0].endswith('train.py') and __name__ == '__main__' and __file__ == sys.argv[0]",
        "import os, sys; assert os.path.samefile(sys.path[0], os.path.dirname(__file__))",
        "import os; os.environ.clear()",
        "import sys; assert 'torch' not in sys.modules",
        "import sys; assert not any('xlaport' in path for path in sys.path if path.endswith('xlaport'))",
    ],
)
def test_the_program_is_left_as_it_is(here, code):
    assert ran(here, code).good


def test_arguments_reach_it(here):
    result = ran(here, "import sys; print(sys.argv[1:])", "--device", "cuda", "--steps", "3", "", "a b")
    assert result.output == "['--device', 'cuda', '--steps', '3', '', 'a b']\n"


def test_a_module_is_run_as_python_runs_it(here):
    written(here, "", "pkg/__init__.py")
    written(here, "from . import other; import sys; print(__name__, __package__, sys.argv[1:])", "pkg/train.py")
    written(here, "", "pkg/other.py")
    result = programs.run(Program(Path("pkg.train"), ("-x",), folder=here, is_module=True), job(here), LIMIT)
    assert result.output == "__main__ pkg ['-x']\n"


def test_a_sitecustomize_of_the_user_is_run_too(here, monkeypatch):
    written(here, "import builtins; builtins.from_user = 1", "site/sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(here / "site"))
    assert ran(here, "print(from_user)").output == "1\n"


def test_a_python_that_is_not_there(here):
    with pytest.raises(UserError, match="No such file"):
        programs.run(Program(written(here, ""), python=str(here / "python")), job(here), LIMIT)


def test_the_error_that_came_first_counts(here):
    """Other ranks fail because one did, and launchers fail last."""
    folder = here / "job"
    folder.mkdir()
    end = '{{"kind": "end", "status": "error", "main": false, "error": "{}", "frames": [], "time": {}}}\n'
    (folder / "events.0.7.jsonl").write_text(end.format("ConnectionError: peer", 2.0))
    (folder / "events.1.8.jsonl").write_text(end.format("ValueError: the cause", 1.0))
    (folder / "events.0.6.jsonl").write_text(end.format("ChildFailedError: launcher", 3.0))
    recorded = programs.streams(folder)
    told = programs.told(programs.by_rank(recorded), programs.first_error(recorded), 1, False, 1.0, "")
    assert told.reason() == "ValueError: the cause"


@pytest.mark.parametrize(
    "code, own",
    [
        ("mp.spawn(train, nprocs=2)", True),
        ("torch_xla.launch(train)", True),
        ("p = Process(target=train)", True),
        ("rank = int(os.environ['RANK'])", False),
    ],
)
def test_who_starts_the_processes(here, code, own):
    several = Program(written(here, code)).on(2)
    assert several.processes == (1 if own else 2)
    assert ("XLAPORT_REPLICAS", "2") in several.environment


# -- the command


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["no_such.py"], "no_such.py: no such script"),
        (["."], ". is a folder: name the script that trains"),
        ([], "name one program: a script, or a module with -m"),
        (["-m", "pkg", "train.py"], "name one program: a script, or a module with -m"),
        (["--python", "no-such-python", "train.py"], "--python no-such-python: no such program"),
        (["--python", "/bin/true", "train.py"], None),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(here, capsys, monkeypatch, arguments, message):
    monkeypatch.setattr("xlaport.commands.pythons.has_package", lambda python, name: True)
    if message is None:
        monkeypatch.setattr("xlaport.commands.pythons.has_package", lambda python, name: False)
        message = "/bin/true has no torch: pip install 'xlaport[xla]' there"
    assert cli.main(["run", "--device", "cpu", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"xlaport: {message}")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "nan"], ["--steps", "0"], ["--steps", "x"], ["--device", "tpu"], ["--replicas", "-1"]])
def test_options_that_are_none(here, capsys, arguments):
    with pytest.raises(SystemExit) as error:
        cli.main(["run", "--device", "cpu", *arguments, "train.py"])
    assert error.value.code == 2


def test_words_after_the_dashes_are_the_programs():
    assert cli.divided(["run", "--device", "cpu", "t.py", "--", "--device", "cuda", "--", "x"]) == (["run", "--device", "cpu", "t.py"], ["--device", "cuda", "--", "x"])
    assert cli.divided(["lint", "--", "-odd.py"]) == (["lint", "--", "-odd.py"], [])
