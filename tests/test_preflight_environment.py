"""The compiler's own environment: found, missing, damaged, not installable."""

import sys

import pytest

from xlaport.errors import UserError
from xlaport.preflight import environment
from xlaport.preflight.environment import NEWEST, OF_TORCH_XLA


def pretended(folder, pair=NEWEST, without=()):
    """A folder that looks like an environment."""
    made = folder / pair.name
    packages = made / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (made / "bin").mkdir()
    environment.python_in(made).symlink_to(sys.executable)
    for requirement in pair.requirements:
        if requirement not in without:
            (packages / f"{requirement.replace('==', '-')}.dist-info").mkdir()
    (made / environment.READY).touch()
    return made


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    assert environment.base_folder() == tmp_path / "data" / "xlaport" / "compiler"
    monkeypatch.setenv(environment.VARIABLE, str(tmp_path / "shared"))
    assert environment.base_folder() == tmp_path / "shared"
    assert environment.base_folder(tmp_path / "flag") == tmp_path / "flag"


def test_a_missing_one_says_what_to_run(tmp_path):
    with pytest.raises(UserError) as caught:
        environment.find(NEWEST, tmp_path)
    assert str(caught.value) == (
        "the TPU compiler is not set up: `xlaport preflight --setup` installs jax 0.10.2 and libtpu 0.0.52 (about 1.1 GB) "
        f"into {tmp_path / NEWEST.name}, once"
    )
    with pytest.raises(UserError, match="--setup --match-torch-xla"):
        environment.find(OF_TORCH_XLA, tmp_path)


def test_one_that_is_there_is_found(tmp_path):
    made = pretended(tmp_path)
    assert environment.find(NEWEST, tmp_path).python == made / "bin" / "python"
    assert not environment.is_ready(OF_TORCH_XLA, tmp_path)


def test_missing_libtpu_is_named(tmp_path):
    made = pretended(tmp_path, without=("libtpu==0.0.52",))
    with pytest.raises(UserError) as caught:
        environment.find(NEWEST, tmp_path)
    assert str(caught.value) == f"libtpu==0.0.52 is missing from the TPU compiler's environment {made}: run `xlaport preflight --setup` again"


def test_another_version_is_not_taken(tmp_path):
    made = pretended(tmp_path, without=("libtpu==0.0.52",))
    (made / "lib" / "python3.11" / "site-packages" / "libtpu-0.0.21.dist-info").mkdir()
    with pytest.raises(UserError, match="^libtpu==0.0.52 is missing"):
        environment.find(NEWEST, tmp_path)


def test_an_unfinished_one_is_not_taken(tmp_path):
    made = pretended(tmp_path)
    (made / environment.READY).unlink()
    with pytest.raises(UserError, match="is not set up"):
        environment.find(NEWEST, tmp_path)


def test_setup_of_a_ready_one_installs_nothing(tmp_path, monkeypatch):
    pretended(tmp_path)
    monkeypatch.setattr(environment, "run", lambda *_: pytest.fail("something was started"))
    assert environment.setup(NEWEST, tmp_path).pair is NEWEST


def test_a_failed_installation_gives_pips_reason_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(UserError) as caught:
        environment.setup(NEWEST, tmp_path)
    assert str(caught.value).startswith("jax 0.10.2 and libtpu 0.0.52 could not be installed: the package index cannot be reached or is empty, so pip says: Could not find a version that satisfies the requirement jax==0.10.2")
    assert not (tmp_path / NEWEST.name).exists()


NO_VERSION = "ERROR: Could not find a version that satisfies the requirement jax==0.10.2 (from versions: none)"


@pytest.mark.parametrize(
    "output, said",
    [
        (f"WARNING: Retrying after connection broken by 'NewConnectionError('<HTTPSConnection>: [Errno 111]')': /simple/jax/\n{NO_VERSION}",
         f"the package index cannot be reached, so pip says: {NO_VERSION.removeprefix('ERROR: ')}"),
        (NO_VERSION, f"the package index cannot be reached or is empty, so pip says: {NO_VERSION.removeprefix('ERROR: ')}"),
        (NO_VERSION.replace("none", "0.4.1, 0.5.0"), NO_VERSION.replace("none", "0.4.1, 0.5.0").removeprefix("ERROR: ")),
        ("", "no reason given"),
    ],
)
def test_an_index_that_does_not_answer_is_named_and_not_only_a_version_that_is_missing(output, said):
    assert environment.reason(output) == said


def test_a_folder_that_cannot_be_written_is_an_error_with_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file: (Not a directory|File exists); name another folder with XLAPORT_COMPILER or --compiler"):
        environment.setup(NEWEST, tmp_path / "file")
