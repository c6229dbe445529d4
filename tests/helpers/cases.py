"""How many cases a property is tried on. `GAUSS_CASES=1` tries as many as each test names, 10 ten times as many."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("GAUSS_CASES", "0.4"))
FEWEST = 20
"""Below this a share tells little; a test that names fewer gets what it names."""


def cases(count: int) -> int:
    """The share of `count` that this run is to try."""
    return max(round(count * SHARE), min(count, FEWEST))
