"""What a traceback or a log means on a TPU. Messages are recognised by the pages in `rules/errors/`; nothing is run or imported."""
