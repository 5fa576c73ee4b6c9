"""Questions about autocast that mean CUDA when no device is named."""

from xlaport.ruleset.api import Context, syntax

ASKING = {
    "torch.is_autocast_enabled": 'torch.is_autocast_enabled("{device_type}")',
    "torch.get_autocast_gpu_dtype": 'torch.get_autocast_dtype("{device_type}")',
}
SETTING = {
    "torch.set_autocast_enabled": 'torch.set_autocast_enabled("{device_type}", {value})',
    "torch.set_autocast_gpu_dtype": 'torch.set_autocast_dtype("{device_type}", {value})',
}


def check(context: Context):
    if not context.on_device:
        return
    for name, template in ASKING.items():
        for call in context.calls(name):
            if not call.args and not call.keywords and not syntax.is_dead(call):
                yield context.finding(call, ops=context.replace(call, template))
    for name, template in SETTING.items():
        for call in context.calls(name):
            if len(call.args) == 1 and not call.keywords and not syntax.is_dead(call):
                yield context.finding(call, ops=context.replace(call, template, value=call.args[0]))
