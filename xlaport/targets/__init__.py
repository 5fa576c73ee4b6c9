"""One profile a target: how each intent is spelled there, with the versions it holds for."""
