"""A function that ports add: what a file is given, with its tensors on the host."""

from __future__ import annotations

NAME = "on_host"
PRELUDE = '''
def on_host(value):
    """The value with its tensors on the host, in whatever lists and dictionaries: a file that can be read without a TPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_host(part) for key, part in value.items()}
    return type(value)(map(on_host, value)) if type(value) in (list, tuple) else value
'''
