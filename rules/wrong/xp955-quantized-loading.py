"""Loading of quantised models, and placement by Accelerate."""

import ast

from xlaport.analysis.values import constant
from xlaport.ruleset.api import Context, Danger, syntax

CONFIGS = ("transformers.BitsAndBytesConfig", "transformers.GPTQConfig", "transformers.AwqConfig", "diffusers.BitsAndBytesConfig")
PREPARERS = ("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training", "peft.utils.prepare_model_for_kbit_training")
SWITCHES = {"load_in_8bit", "load_in_4bit"}
PLACED = {"auto", "balanced", "balanced_low_0", "sequential"}


def check(context: Context):
    configs = [node for node in context.uses(*CONFIGS) if isinstance(node, ast.Call)]
    for call in configs:
        yield context.finding(call, "quantised layers are CUDA kernels: load in bfloat16")
    for call in context.calls(*PREPARERS):
        yield context.finding(call, "prepares a quantised model: not needed for one in bfloat16")
    for call in context.facts.of(ast.Call):
        if call in configs or syntax.is_dead(call):
            continue
        for keyword in call.keywords:
            if keyword.arg in SWITCHES and constant(keyword.value) is True:
                yield context.finding(keyword.value, "quantised layers are CUDA kernels: load in bfloat16")
            elif keyword.arg == "device_map" and constant(keyword.value) in PLACED:
                message = "finds no GPU and leaves the model on the CPU: take it out, and move the model with .to(device)"
                yield context.finding(keyword.value, message, danger=Danger.SILENT)
