"""Children that end in every way there is: the caller gets an answer or a sentence."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from textwrap import dedent

import pytest

from xlaport.errors import UserError
from xlaport.preflight import children
from xlaport.preflight.children import Child


def ended(tmp_path: Path, body: str, seconds: float = 30, python: str = sys.executable) -> children.Ended:
    """A child whose `main(folder)` is this text."""
    code = "import json, os, signal, sys, time\n\ndef main(folder):\n" + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    (tmp_path / "a_child.py").write_text(code, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return children.run(Child("the child", Path(python), "a_child", {"PYTHONPATH": str(tmp_path)}, seconds), {"number": 7}, work)


def test_an_answer(tmp_path):
    found = ended(tmp_path, "asked = json.loads((folder / 'request.json').read_text()); (folder / 'answer.json').write_text(json.dumps({'twice': 2 * asked['number']}))")
    assert found.answer == {"twice": 14} and not found.death


def test_the_answer_of_an_earlier_child_is_not_taken(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "answer.json").write_text("{}")
    assert ended(tmp_path, "sys.exit(3)").answer is None


def test_xlaport_and_nothing_beside_it_is_importable(tmp_path):
    found = ended(tmp_path, """
        import xlaport.preflight.children
        import importlib.util
        (folder / 'answer.json').write_text(json.dumps({'found': importlib.util.find_spec('topology') is not None}))
    """)
    assert found.answer == {"found": False}


@pytest.mark.parametrize(
    "body, said",
    [
        ("print('F0000 Check failed: pjrt_data->buffer != nullptr PjRt buffer is null in TransferFromDevice', file=sys.stderr); os.abort()",
         "the child was ended by SIGABRT: an operation without a lowering read data that does not exist while tracing"),
        ("print('F0000 Check failed: !count_overflow', file=sys.stderr); os.abort()",
         "the child was ended by SIGABRT: the program has a shape that is not fixed, and the compiler aborts on those"),
        ("print('F0000 Check failed: some other thing', file=sys.stderr); print('done', file=sys.stderr); os.abort()",
         "the child was ended by SIGABRT: F0000 Check failed: some other thing"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the child was ended by SIGKILL: most likely the host's memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the child was ended by SIGSEGV: it said nothing"),
        ("print(\"ERROR: Unknown command line flag 'xla_no_such'. Did you mean: ...\", file=sys.stderr); sys.exit(1)",
         "the child ended with status 1: LIBTPU_INIT_ARGS holds a flag that this libtpu does not know: Unknown command line flag 'xla_no_such'"),
        ("import torch_xla_that_is_missing", "the child ended with status 1: ModuleNotFoundError: No module named 'torch_xla_that_is_missing'"),
        ("raise OSError(28, 'No space left on device')", "the child ended with status 1: no space left on the disk of the work folder; TMPDIR or --keep names another"),
        ("raise MemoryError()", "the child ended with status 1: the host's memory ran out"),
        ("sys.exit(0)", "the child ended with status 0 and no answer, as when a program puts another in its place (os.execv)"),
    ],
)
def test_deaths_become_sentences(tmp_path, body, said):
    found = ended(tmp_path, body)
    assert found.answer is None
    assert found.death.startswith(said)


def test_a_child_that_takes_too_long_is_stopped_with_all_it_started(tmp_path):
    started = time.monotonic()
    found = ended(tmp_path, """
        import subprocess
        (folder / 'pid').write_text(str(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid))
        time.sleep(60)
    """, seconds=8)  # a loaded machine takes seconds to start two processes
    assert re.fullmatch(r"the child was stopped after \d+ s \(--timeout\)", found.death)
    assert time.monotonic() - started < 40
    wait_until_gone(int((tmp_path / "work" / "pid").read_text()))


def test_a_full_disk_takes_the_last_words_too(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(children.shutil, "disk_usage", lambda _: usage(10**9, 10**9, 0))
    assert ended(tmp_path, "sys.exit(1)").death == "the child ended with status 1: no space left on the disk of the work folder; TMPDIR or --keep names another"


def test_a_python_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="no/such/python: No such file or directory"):
        ended(tmp_path, "pass", python="no/such/python")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="No such file or directory"):
        children.run(Child("the child", Path(sys.executable), "json", {}, 5), {}, tmp_path / "none")


def test_a_parent_that_is_killed_leaves_no_child(tmp_path):
    (tmp_path / "a_child.py").write_text("import os, time\n\ndef main(folder):\n    (folder / 'pid').write_text(str(os.getpid()))\n    time.sleep(60)\n")
    parent = (
        "import sys; from pathlib import Path; from xlaport.preflight import children; "
        f"children.run(children.Child('the child', Path(sys.executable), 'a_child', {{'PYTHONPATH': {str(tmp_path)!r}}}, 60), {{}}, Path({str(tmp_path)!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    process = subprocess.Popen([sys.executable, "-c", parent], env=environment)
    child = int(text_when_there(tmp_path / "pid"))
    process.kill()
    process.wait()
    wait_until_gone(child)


@pytest.mark.parametrize("number, ignored, status", [(signal.SIGTERM, False, 128 + signal.SIGTERM), (signal.SIGHUP, True, 0)])
def test_a_parent_that_is_told_to_end_ends_all_that_was_started_unless_it_ignores_that(tmp_path, number, ignored, status):
    """An ignored signal is that of nohup: the child goes on to its end."""
    (tmp_path / "a_child.py").write_text(dedent(f"""
        import subprocess, sys, time

        def main(folder):
            process = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
            (folder / 'pid').write_text(str(process.pid))
            time.sleep({3 if ignored else 60})
    """))
    parent = dedent(f"""
        import signal, sys
        from pathlib import Path
        from xlaport.preflight import children
        if {ignored}:
            signal.signal({int(number)}, signal.SIG_IGN)
        children.run(children.Child('the child', Path(sys.executable), 'a_child', {{'PYTHONPATH': {str(tmp_path)!r}}}, 60), {{}}, Path({str(tmp_path)!r}))
    """)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    process = subprocess.Popen([sys.executable, "-c", parent], env=environment)
    grandchild = int(text_when_there(tmp_path / "pid"))
    process.send_signal(number)
    assert process.wait(40) == status
    wait_until_gone(grandchild)


def text_when_there(file: Path) -> str:
    for _ in range(600):
        if file.exists() and file.read_text():
            return file.read_text()
        time.sleep(0.05)
    pytest.fail(f"{file} was not written")


def wait_until_gone(process: int) -> None:
    for _ in range(200):
        state = Path(f"/proc/{process}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail(f"process {process} is still there")
