"""Which project files belong to programs of another framework, as in a repository of models for several."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from xlaport.source import SourceFile, is_python

TORCH = re.compile(
    rb"^[ \t]*(?:import|from)[ \t]+(?:torch\w*|pytorch_lightning|lightning|accelerate|transformers|diffusers|timm|fastai|trl|peft)\b", re.MULTILINE
)
NAMES = (b"tensorflow", b"keras", b"mxnet", b"paddle", b"jax", b"flax", b"haiku")
OTHERS = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:tensorflow\w*|keras|mxnet|paddle|jax|flax|haiku)\b", re.MULTILINE)


def of_other_frameworks(sources: Mapping[Path, SourceFile]) -> set[Path]:
    """Project files whose nearest Python code uses another framework and no torch.

    Nearest: the code below the first folder, from the file's own upwards, that has code of any framework.
    """
    if not any(name in source.code for source in sources.values() for name in NAMES):
        return set()
    uses: dict[Path, set[str]] = {}
    for path, source in sources.items():
        if not is_python(path):
            continue
        kinds = {kind for kind, pattern in (("torch", TORCH), ("other", OTHERS)) if pattern.search(source.code)}
        if kinds:
            for folder in path.parents:
                uses.setdefault(folder, set()).update(kinds)
    return {path for path in sources if not is_python(path) and nearest(path, uses) == {"other"}}


def nearest(path: Path, uses: Mapping[Path, set[str]]) -> set[str]:
    return next((uses[folder] for folder in path.parents if folder in uses), set())
