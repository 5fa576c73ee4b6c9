"""Compile one program for a slice of TPU chips, with libtpu's client that only compiles.

The request: `program` (a file, StableHLO as torch_xla's portable bytecode or as text), `drop_returned_arguments`, `donors`
(argument numbers), `shardings` (argument number -> HLO sharding), `libraries` (folders whose lines are not the user's), `topology`, `devices`, `chip_config`, `one_chip`,
`options` (of the compiler) and `init_args`. What is left in the folder: `optimized.hlo`, `dump/` and the answer.
"""

from __future__ import annotations

import os
import shutil
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlaport.preflight import children

if TYPE_CHECKING:
    from xlaport.preflight.compiler.program import Partitioning

SILENT = {
    "TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost", "TPU_STDERR_LOG_LEVEL": "3", "TPU_MIN_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "3",
}
"""No metadata server is asked, several processes may load libtpu, and its chatter about the missing TPU is off."""


def main(folder: Path) -> None:
    request = children.read(folder / children.REQUEST)
    os.environ.update(SILENT, LIBTPU_INIT_ARGS=request["init_args"])
    children.leave(folder, compiled(request, folder) | versions())


def versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "libtpu"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def compiled(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The answer: `status` is `ok`, `oom`, `refused` (the program), `topology` or `broken` (the environment), with an `error`."""
    try:
        from jax.experimental import topologies

        devices = slice_devices(topologies, request)
    except Exception as error:
        return {"status": "topology" if "INVALID_ARGUMENT" in str(error) else "broken", "error": str(error)}
    from jaxlib.mlir import ir

    from xlaport.preflight.compiler import flops, program

    with program.context() as context:
        try:
            module = program.load(context, Path(request["program"]).read_bytes(), request)
        except (ir.MLIRError, ValueError) as error:
            return {"status": "refused", "error": f"not StableHLO that this jaxlib reads: {error}"}
        counted = flops.count(program.main_function(module), module)
        answer = {"devices": len(devices), "stablehlo_flops": counted.flops, "unknown_loops": counted.unknown_loops}
        begun = time.monotonic()
        try:
            executable = run_compiler(module, devices, options(request, devices, folder / "dump", program.partitioning(module)))
        except Exception as error:
            return answer | {"status": "oom" if "RESOURCE_EXHAUSTED" in str(error) else "refused", "error": str(error), "compile_seconds": time.monotonic() - begun}
    answer |= {"status": "ok", "error": "", "compile_seconds": time.monotonic() - begun}
    return answer | {"memory": memory(executable), "cost": cost(executable), "hlo": optimized(executable, folder)}


def slice_devices(topologies: Any, request: dict[str, Any]) -> list[Any]:
    settings = {"chip_config_name": request["chip_config"]} if request["chip_config"] else {}
    if request["one_chip"]:
        settings["chips_per_host_bounds"] = (1, 1, 1)  # libtpu 0.0.21 needs it
    devices = list(topologies.get_topology_desc(platform="tpu", topology_name=request["topology"], **settings).devices)
    if len(devices) < request["devices"]:
        raise ValueError(f"INVALID_ARGUMENT: {request['topology']} has {len(devices)} devices, {request['devices']} are asked for")
    return devices[: request["devices"]]


def options(request: dict[str, Any], devices: list[Any], dump: Path, partitioning: Partitioning) -> Any:
    import numpy
    from jax._src.lib import xla_client

    shutil.rmtree(dump, ignore_errors=True)
    made = xla_client.CompileOptions()
    made.num_replicas, made.num_partitions = 1, len(devices)
    made.device_assignment = xla_client.DeviceAssignment.create(numpy.array([[device.id for device in devices]]))
    build = made.executable_build_options
    build.num_partitions, build.use_spmd_partitioning = len(devices), len(devices) > 1
    if len(devices) > 1:
        build.use_shardy_partitioner = partitioning.shardy
        # As torch_xla does, whose results say nothing. Without it every updated weight is gathered at the end of the step.
        build.allow_spmd_sharding_propagation_to_output = [not partitioning.results_are_sharded]
    made.env_option_overrides = [("xla_dump_to", str(dump)), *request["options"].items()]
    return made


def run_compiler(module: Any, devices: list[Any], options: Any) -> Any:
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib import _jax

    listed = (getattr(xla_client, "DeviceList", None) or _jax.DeviceList)(tuple(devices))
    client = devices[0].client
    try:
        return client.compile(module, listed, options)  # jaxlib 0.10
    except TypeError:
        return client.compile(mlir.module_to_bytecode(module), listed, options)  # jaxlib 0.7 takes bytes


def memory(executable: Any) -> dict[str, int]:
    """Bytes of one device by kind: argument, output, alias, temp, generated_code, peak."""
    found = executable.get_compiled_memory_stats()
    kinds = {"peak": "peak_memory_in_bytes", **{kind: f"{kind}_size_in_bytes" for kind in ("argument", "output", "alias", "temp", "generated_code")}}
    return {kind: getattr(found, name, 0) for kind, name in kinds.items()}


def cost(executable: Any) -> dict[str, float]:
    analysis = executable.get_cost_analysis() if hasattr(executable, "get_cost_analysis") else executable.cost_analysis()
    return {"flops": analysis.get("flops", 0.0)}


def optimized(executable: Any, folder: Path) -> str:
    """Writes the compiled program as HLO text; returns the file's name below `folder`."""
    try:
        text = executable.hlo_modules()[0].to_string()
    except Exception:
        # jaxlib could not read one executable of a newer libtpu (tpu7x, 64 devices); the dump holds the same text.
        dumped = sorted((folder / "dump").glob("*.after_codegen.txt"), key=lambda file: file.stat().st_size)
        return str(dumped[-1].relative_to(folder)) if dumped else ""
    (folder / "optimized.hlo").write_text(text, encoding="utf-8")
    return "optimized.hlo"
