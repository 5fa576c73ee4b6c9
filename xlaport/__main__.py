"""`python -m xlaport` and the `xlaport` script."""

import os
import sys
from contextlib import suppress

from xlaport.cli import main as run


def main() -> None:
    """The process ends as it is: to take apart modules and trees one by one, which the system does at once, is 10 ms of a run on one file."""
    status = run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # who read it has gone, or there is no room for it
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
