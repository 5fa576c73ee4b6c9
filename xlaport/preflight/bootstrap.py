"""Start of both children: `python bootstrap.py MODULE FOLDER`, in a Python that need not have xlaport installed.

Only the package `xlaport` is made importable, from beside this file: its own environment must not come along.
"""

import ctypes
import importlib
import importlib.util
import signal
import sys
from pathlib import Path

PARENT_DEATH_SIGNAL = 1
"""Linux, prctl(2)."""

PACKAGE = Path(__file__).resolve().parent.parent


def main() -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)  # a parent that is killed leaves no program running
    if "xlaport" not in sys.modules:
        spec = importlib.util.spec_from_file_location("xlaport", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)])
        sys.modules["xlaport"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    del sys.path[0]  # this folder: its modules are not top-level ones
    importlib.import_module(sys.argv[1]).main(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
