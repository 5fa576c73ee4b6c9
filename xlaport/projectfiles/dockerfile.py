"""Dockerfiles and Makefiles: instructions and recipes whose text is shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xlaport.findings import Danger, Finding
from xlaport.projectfiles import shell
from xlaport.projectfiles.packages import written_name
from xlaport.projectfiles.shell_words import commands
from xlaport.projectfiles.view import View

INSTRUCTION = re.compile(r"^[ \t]*(?P<word>FROM|ARG|RUN|ENV|CMD|ENTRYPOINT)[ \t]+(?P<rest>(?:[^\n]*\\\r?\n)*[^\n]*)", re.MULTILINE | re.IGNORECASE)
CUDA_IMAGE = re.compile(
    r"(?:nvcr\.io/nvidia/|(?<![\w/])nvidia/)(?:pytorch|cuda|l4t|k8s)[\w.:${}/-]*"
    r"|(?<![\w/])pytorch/pytorch:[\w.-]*cuda[\w.-]*|huggingface/[\w-]*pytorch[\w-]*gpu[\w.:-]*"
)
OTHER_IMAGE = re.compile(r"nvcr\.io/nvidia/(?:tensorflow|mxnet|paddlepaddle|kaldi|merlin|tritonserver|jax)|tensorflow/tensorflow")
VARIABLE = re.compile(r"(?P<name>\w+)[= ]")
RECIPE = re.compile(r"^\t[ \t]*[@+-]*(?P<shell>(?:[^\n]*\\\r?\n)*[^\n]*)", re.MULTILINE)


def check(view: View) -> Iterator[Finding]:
    if OTHER_IMAGE.search(view.text) and not CUDA_IMAGE.search(view.text):
        return
    for found in INSTRUCTION.finditer(view.text):
        word, start, end = found["word"].upper(), found.start("rest"), found.end("rest")
        if word in {"FROM", "ARG"}:
            yield from image_findings(view, start, end)
        elif word == "ENV":
            yield from variable_findings(view, start, end)
        elif not found["rest"].startswith("["):
            for command in commands(view.text, start, end):
                yield from shell.command_findings(view, command)


def image_findings(view: View, start: int, end: int) -> Iterator[Finding]:
    found = CUDA_IMAGE.search(view.text, start, end)
    if found:
        message = f"{found[0]} brings CUDA and its own torch: start from an image with Python {view.target.python} or newer, and install torch and {written_name(view.target)} with pip"
        yield view.finding("XP859", found.start(), found.end(), message)


def variable_findings(view: View, start: int, end: int) -> Iterator[Finding]:
    found = VARIABLE.match(view.text, start, end)
    if found and found["name"] in view.target.renamed_variables:
        yield shell.renamed_variable(view, found["name"], start)
    if not found or not (found["name"] == shell.VISIBLE or shell.VARIABLE.match(found["name"])):
        return
    name = found["name"]
    single = view.text.count("=", start, end) <= 1 and not re.search(rf"\$\{{?{name}\b", view.text)
    edits = [view.without_lines(start, end)] if single else None
    code = "XP860" if name == shell.VISIBLE else "XP861"
    message = f"{name} means nothing to a TPU" + ("" if edits else ": take it out, and what reads it")
    yield view.finding(code, start, end, message, edits, danger=Danger.NONE)


def check_makefile(view: View) -> Iterator[Finding]:
    for recipe in RECIPE.finditer(view.text):
        for command in commands(view.text, recipe.start("shell"), recipe.end("shell")):
            yield from shell.command_findings(view, command)
