"""Every command that a document shows is run, and prints what the document says; or the document says why not."""

from __future__ import annotations

import shlex

import documented
import pytest
from documented import DOCS, PLACES, PRINTED, SHELL, Block, Step

from xlaport import cli

KINDS = {*PLACES, "same"}
CHAINS = documented.all_chains()


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.name)
def test_every_block_says_what_it_is(doc):
    for block in documented.blocks(doc):
        allowed = ("run", "not run", "ci") if block.language in SHELL else ("output", "not run")
        assert block.kind in allowed, f"{block}: a block of {block.language or 'text'} has no marker above it (tests/documented.py)"
        if block.kind == "run":
            assert block.place in KINDS and len(block.exits) == len(block.commands), block
        if block.kind == "not run":
            assert len(block.marker.split()) > 4, f"{block}: why not?"


def test_most_blocks_are_run():
    shell = [block for doc in DOCS for block in documented.blocks(doc) if block.language in SHELL]
    assert len([block for block in shell if block.kind in ("run", "ci")]) > len(shell) / 2


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: str(chain[0].block))
def test_documented_commands(chain: list[Step], tmp_path):
    documented.run(chain, tmp_path, with_torch=False)


@pytest.mark.parametrize("doc", DOCS, ids=lambda doc: doc.name)
def test_commands_that_are_not_run_parse(doc):
    """Every verb and option exists."""
    for block in documented.blocks(doc):
        if block.language in SHELL and (block.kind == "not run" or block.needs_torch):
            for words in xlaport_commands(block):
                own, _ = cli.divided(words)
                cli.build_parser(own).parse_args(own)


def xlaport_commands(block: Block):
    for command in block.commands:
        for part in command.replace(" | ", " && ").split(" && "):
            words = shlex.split(part, comments=True)
            if words[:1] == ["xlaport"]:
                yield words[1:]


# -- the mechanism


def block(text: str, marker: str, language: str = "sh") -> Block:
    return Block(DOCS[0], 1, language, text, marker)


def test_a_wrong_status_is_seen(tmp_path):
    with pytest.raises(AssertionError, match="exit statuses"):
        documented.run([Step(block("false\n", "run: empty"), None)], tmp_path, with_torch=False)


@pytest.mark.parametrize(
    ("shown", "marker", "fits"),
    [
        ("a 1\nb\n", "output", True),
        ("a 2\nb\n", "output", False),
        ("a 2\nb\n", "output; numbers differ", True),
        ("a 1\n", "output", False),
        ("a 1\n...\n", "output", True),
        ("...\nb\n", "output", True),
        ("b\n...\n", "output", False),
    ],
)
def test_outputs_are_compared(shown, marker, fits, tmp_path):
    step = Step(block("echo a 1\necho b\n", "run: empty"), block(shown, marker, PRINTED[0]))
    if fits:
        documented.run([step], tmp_path, with_torch=False)
        return
    with pytest.raises(AssertionError, match="it prints"):
        documented.run([step], tmp_path, with_torch=False)


def test_a_block_goes_on_where_the_one_before_left_off(tmp_path):
    steps = [Step(block("mkdir a\ncd a\n", "run: empty"), None), Step(block("basename $PWD\n", "run: same"), block("a\n", "output", "text"))]
    documented.run(steps, tmp_path, with_torch=False)
