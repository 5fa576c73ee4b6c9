"""Random numbers of the device are those of the host, whatever asks for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FORMS = Path(__file__).with_name("random_forms.py")


def test_every_form_draws_the_same_numbers_on_both_devices():
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "TPU_SKIP_MDS_QUERY": "1"}
    done = subprocess.run([sys.executable, str(FORMS)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 50
    assert {name: said for name, said in found.items() if said} == {}
