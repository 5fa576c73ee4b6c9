"""complex128 on the device."""

from xlaport.ruleset.api import Context
from xlaport.ruleset.dtypes import on_device


def check(context: Context):
    for call in on_device(context, "torch.complex128", "torch.cdouble"):
        yield context.finding(call, is_idiom=False)
