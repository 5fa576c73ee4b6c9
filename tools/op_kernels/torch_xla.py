"""How torch_xla's dispatcher resolves each operator, as JSON on standard output. Runs in an environment that holds torch_xla."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("PJRT_DEVICE", "CPU")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from op_status import dispatcher  # noqa: E402 - beside this folder

print(json.dumps({"aten": dispatcher.lists(dispatcher.resolve_all())}))
