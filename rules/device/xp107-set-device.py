"""`torch.cuda.set_device`, `with torch.cuda.device(i):`, `torch.accelerator.set_device_index`."""

from xlaport.analysis import devices
from xlaport.ruleset.api import Context, syntax

SETTERS = ("torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.device_index", "torch.cuda._lazy_init", "torch.cuda.init")
CONTEXTS = ("torch.cuda.device", "torch.cuda.device_of")


def check(context: Context):
    for call in context.calls(*SETTERS, *CONTEXTS):
        if syntax.is_dead(call):
            continue
        if call.args and devices.means_other_devices(call.args[0], context.module):
            yield context.finding(call, "selects another device of this process: on TPU a process drives one device")
            continue
        yield context.finding(call, "each process has its own TPU device: nothing to select", context.drop(call, "None"))
