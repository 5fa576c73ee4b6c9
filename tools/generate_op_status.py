"""Writes `xlaport/data/op_status_torch_xla_<version>.json`: how each torch API runs on XLA.

    pip install torch==2.9.* torch_xla==2.9.* numpy scipy expecttest
    PJRT_DEVICE=CPU TPU_SKIP_MDS_QUERY=1 python tools/generate_op_status.py

Two sources, both of the installed torch_xla; nothing is written by hand:

- measured: every call of PyTorch's own test tables (`op_db`, `module_db`, `optim_db`) and of `tools/op_status/forms.py`
  runs on XLA:CPU, forward and backward, while torch_xla's counters say which operators went to the host;
- the dispatcher's registrations, for every aten overload, and for the public functions no call was found for.

It takes about 20 minutes on two cores. `--only NAME ...` measures the operators, modules or APIs whose name contains a
NAME and prints the entries instead of writing them (`--update` puts them into the committed table); with `--forms`,
of `forms.py` only, which needs no `expecttest`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiles in half the time

import op_tables
import torch
import torch_xla
from op_status import dispatcher, forms, probe, sources, summary, surface
from op_status.dispatcher import Resolution

DATA = Path(__file__).resolve().parents[1] / "xlaport" / "data"
_UNMEASURED = {
    frozenset({Resolution.NATIVE}): "native",
    frozenset({Resolution.FALLBACK}): "fallback",
}


Found = dict[str, list[tuple[str, probe.Observation]]]
"""Observations by API, each with where its call came from."""


def measure(jobs: list[probe.Job], parallel: int, limit: float) -> Found:
    found: Found = defaultdict(list)
    suspicious = []
    for job, seen in _progress(probe.run_jobs(jobs, parallel, limit), len(jobs)):
        for observation in seen:
            if observation.error or observation.differs:
                suspicious.append((job, observation))
            else:
                _add(found, job, observation)
    _confirm(found, suspicious, parallel, limit)
    return found


def _confirm(found: Found, suspicious: list[tuple[probe.Job, probe.Observation]], parallel: int, limit: float) -> None:
    """Runs what failed or differed once more, each call alone."""
    singles = {id(single): (single, job, seen) for job, seen in suspicious for single in [probe.alone(job, seen)]}
    jobs = [single for single, _, _ in singles.values()]
    for single, again in _progress(probe.run_jobs(jobs, parallel, limit), len(jobs)):
        _, job, seen = singles[id(single)]
        _add(found, job, probe.confirmed(seen, again))


def _add(found: Found, job: probe.Job, observation: probe.Observation) -> None:
    for api in observation.apis:
        found[api].append((job.source, observation))


def _progress(results: Iterable[tuple[probe.Job, list[Any]]], total: int) -> Iterator[tuple[probe.Job, list[Any]]]:
    for count, (job, seen) in enumerate(results, 1):
        print(f"{count}/{total} {job.source} {job.name}: {len(seen)} calls", file=sys.stderr, flush=True)
        yield job, seen


def measured_entries(found: Found) -> dict[str, dict[str, Any]]:
    entries = {}
    for api, pairs in found.items():
        source = "+".join(sorted({source for source, _ in pairs}))
        ordered = sorted((observation for _, observation in pairs), key=lambda one: (one.index, one.text))
        entries[api] = summary.entry(ordered, source)
    return entries


def dispatched_entries(resolved: dict[str, Resolution], known: set[str]) -> dict[str, dict[str, Any]]:
    """Functions no call was found for. A composite one is left out: its status is that of unknown parts."""
    entries = {}
    for api, overloads in surface.dispatched(resolved):
        status = _UNMEASURED.get(frozenset(overloads.values()))
        if api not in known and status:
            forward = [f"aten::{name}" for name in sorted(overloads)] if status == "fallback" else []
            entries[api] = {"status": status, "source": "dispatcher", **({"forward": forward} if forward else {})}
    return entries


def named_entries(entries: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for the spellings of a name that say the same: `torch.abs` and `torch.Tensor.abs`."""
    by_identity = surface.spellings()
    claimed = set(entries)
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for api, entry in entries.items():
        spelled = {name for name in surface.all_names(api, by_identity) if name == api or name not in claimed}
        names[api.rpartition(".")[2], json.dumps(entry, sort_keys=True)] |= spelled
        claimed |= spelled
    grouped = [{"names": sorted(spelled), **json.loads(text)} for (_, text), spelled in names.items()]
    return sorted(grouped, key=lambda entry: entry["names"])


def table(parallel: int, limit: float) -> dict[str, Any]:
    resolved = dispatcher.resolve_all()
    entries = measured_entries(measure(all_jobs(), parallel, limit))
    entries |= {name: {"status": "host", "source": "torch"} for name in surface.host_names(resolved) - set(entries)}
    entries |= dispatched_entries(resolved, set(entries))
    return {
        "version": 1,
        "target": "torch_xla",
        "torch": torch.__version__.partition("+")[0],
        "torch_xla": torch_xla.__version__.partition("+")[0],
        "device": "XLA:CPU",
        "made_by": "tools/generate_op_status.py",
        "aten": dispatcher.lists(resolved),
        "apis": named_entries(entries),
    }


def all_jobs() -> list[probe.Job]:
    return [*sources.operator_jobs(), *sources.module_jobs(), *sources.optimizer_jobs(), *forms.form_jobs()]


def print_entries(entries: dict[str, dict[str, Any]]) -> None:
    print("\n".join(json.dumps({"api": api, **entry}) for api, entry in sorted(entries.items())))


def updated(old: dict[str, Any], entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The committed table with `entries` in the place of what it said of these APIs."""
    replaced = [entry for entry in old["apis"] if entries.keys() & set(entry["names"])]
    narrower = {name for entry in replaced for name in entry["names"] if name in entries and _loses(entry, entries[name])}
    new = {api: entry for api, entry in entries.items() if api not in narrower}
    kept = [entry for entry in old["apis"] if not new.keys() & set(entry["names"])]
    flat = {name: {key: value for key, value in entry.items() if key != "names"} for entry in kept for name in entry["names"]}
    return {**old, "apis": named_entries({**flat, **new})}


def _loses(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the new entry lacks a table of calls the old one was measured with."""
    return not set(old["source"].split("+")) <= {*new["source"].split("+"), "dispatcher", "torch"}


def dumped(made: dict[str, Any]) -> str:
    apis = ",\n".join(f"  {json.dumps(entry)}" for entry in made["apis"])
    return "{\n" + ",\n".join([*op_tables.head(made), op_tables.aten(made["aten"]), f' "apis": [\n{apis}\n ]']) + "\n}\n"


def data_path() -> Path:
    major_minor = ".".join(torch_xla.__version__.split(".")[:2])
    return DATA / f"op_status_torch_xla_{major_minor}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=float, default=120, help="seconds a single call may take")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these and print, without writing")
    parser.add_argument("--forms", action="store_true", help="with --only: look in forms.py only")
    parser.add_argument("--update", action="store_true", help="with --only: put what was measured into the table")
    options = parser.parse_args()
    if not options.only:
        data_path().write_text(dumped(table(options.jobs, options.limit)), encoding="utf-8")
        return
    jobs = forms.form_jobs() if options.forms else all_jobs()
    chosen = [job for job in jobs if any(name in job.name for name in options.only)]
    entries = measured_entries(measure(chosen, options.jobs, options.limit))
    if options.update:
        old = json.loads(data_path().read_text(encoding="utf-8"))
        data_path().write_text(dumped(updated(old, entries)), encoding="utf-8")
    else:
        print_entries(entries)


if __name__ == "__main__":
    main()
