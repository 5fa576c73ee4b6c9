"""`python -m xlaport` and the `xlaport` script."""

import sys

from xlaport.cli import main as run


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
