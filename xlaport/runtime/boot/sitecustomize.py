"""First thing every Python process of a watched program imports: this folder is put in front of PYTHONPATH.

So the program runs as `python script.py` does, with its own `__main__`, and processes it starts are watched too. torch
is not imported here: what is watched is put in place when the program imports torch.
"""

import importlib.machinery
import importlib.util
import os
import sys


def chain() -> None:
    """Run the sitecustomize this file hides, if the environment has one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def begin() -> None:
    import json

    with open(os.environ["XLAPORT_JOB"], encoding="utf-8") as stream:
        root = json.load(stream)["root"]
    sys.path.append(root)
    try:
        from xlaport.runtime.inside import session
    finally:
        sys.path.remove(root)
    session.begin(os.environ["XLAPORT_JOB"])


if "XLAPORT_JOB" in os.environ:
    begin()
chain()
