"""Functions torch 2.9 does not have, or refuses to run."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, syntax

RENAMED = {
    "torch.matrix_rank": "torch.linalg.matrix_rank", "torch.set_deterministic": "torch.use_deterministic_algorithms",
    "torch.is_deterministic": "torch.are_deterministic_algorithms_enabled",
}
BY_HAND = {
    "torch.symeig": "torch.linalg.eigh, or eigvalsh for values alone",
    "torch.eig": "torch.linalg.eig, which gives complex numbers",
    "torch.lstsq": "torch.linalg.lstsq(A, B), with the matrix first",
    "torch.solve": "torch.linalg.solve(A, B), with the matrix first and no factors in the result",
    "torch.gesv": "torch.linalg.solve(A, B)", "torch.gels": "torch.linalg.lstsq(A, B)", "torch.potrf": "torch.linalg.cholesky",
    "torch.btrifact": "torch.linalg.lu_factor", "torch.trtrs": "torch.linalg.solve_triangular",
    "torch.rfft": "torch.fft.rfft and torch.view_as_real", "torch.irfft": "torch.fft.irfft and torch.view_as_complex",
    "torch.ifft": "torch.fft.ifft and torch.view_as_complex", "torch.fft": "torch.fft.fft and torch.view_as_complex",
}
LAST_POSITION_OF_COMPLEX = 9
"""`torch.stft(input, n_fft, hop, win, window, center, pad_mode, normalized, onesided, return_complex)`"""


def check(context: Context):
    for call in context.calls(*RENAMED, *BY_HAND, "torch.stft"):
        names = context.names.qualified(call.func)
        name = next((name for name in names if name in RENAMED or name in BY_HAND or name == "torch.stft"), "")
        if name and not syntax.is_dead(call):
            yield from finding_for(context, call, name)


def finding_for(context: Context, call: ast.Call, name: str):
    message = f"{name} was removed from torch"
    if name in RENAMED:
        yield context.finding(call, message, context.replace(call.func, RENAMED[name]), is_idiom=False)
    elif name == "torch.stft":
        if not says_complex(call):
            ops = context.edit_call(call, return_complex="False")
            yield context.finding(call, "torch.stft must say whether it returns complex numbers", ops, is_idiom=False)
    elif name == "torch.symeig" and gives_vectors(call):
        yield context.finding(call, message, context.replace(call, "torch.linalg.eigh({matrix})", matrix=call.args[0]), is_idiom=False)
    else:
        yield context.finding(call, f"{message}: use {BY_HAND[name]}", is_idiom=False)


def says_complex(call: ast.Call) -> bool:
    names = {keyword.arg for keyword in call.keywords}
    spread = None in names or any(isinstance(argument, ast.Starred) for argument in call.args)
    return spread or "return_complex" in names or len(call.args) > LAST_POSITION_OF_COMPLEX


def gives_vectors(call: ast.Call) -> bool:
    """`torch.symeig(a, eigenvectors=True)` and nothing else."""
    keywords = {keyword.arg: constant(keyword.value) for keyword in call.keywords}
    return len(call.args) == 1 and keywords == {"eigenvectors": True}
