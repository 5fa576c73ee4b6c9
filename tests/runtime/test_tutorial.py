"""What the documents show that needs torch: the tutorial, from the original to a verified port."""

from __future__ import annotations

import documented
import pytest

CHAINS = [chain for chain in documented.all_chains() if any(step.block.needs_torch for step in chain)]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: str(chain[0].block))
def test_documented_commands(chain, tmp_path):
    documented.run(chain, tmp_path, with_torch=True)
