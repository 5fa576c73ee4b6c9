"""Keywords of torch and torchvision that are gone."""

import ast

from xlaport.ruleset.api import Context, syntax

SCHEDULERS = "torch.optim.lr_scheduler."
RENAMED = {
    "torchvision.utils.make_grid": {"range": "value_range"}, "torchvision.utils.save_image": {"range": "value_range"},
    **{f"torchvision.transforms.{name}": {"resample": "interpolation", "fillcolor": "fill"} for name in (
        "RandomRotation", "RandomAffine", "RandomPerspective", "functional.rotate", "functional.affine", "functional.perspective",
    )},
}


def check(context: Context):
    for call in context.facts.of(ast.Call):
        if not call.keywords or syntax.is_dead(call):
            continue
        for name in context.names.qualified(call.func):
            yield from in_call(context, call, name)


def in_call(context: Context, call: ast.Call, name: str):
    for keyword in call.keywords:
        if name.startswith(SCHEDULERS) and keyword.arg == "verbose":
            yield context.finding(keyword.value, "schedulers print nothing any more", context.edit_call(call, remove=["verbose"]), is_idiom=False)
        new = RENAMED.get(name, {}).get(keyword.arg)
        if new:
            ops = context.edit_call(call, remove=[keyword.arg], **{new: context.text(keyword.value)})
            yield context.finding(keyword.value, f"`{keyword.arg}` is called `{new}` now", ops, is_idiom=False)
