"""Number of cases of property tests. `GAUSS_CASES=1` runs as many as each test names, 10 ten times as many."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("GAUSS_CASES", "0.4"))
FEWEST = 20
"""Minimum number of cases, unless a test names fewer."""


def cases(count: int) -> int:
    """The number of cases to run for a test that names `count`."""
    return max(round(count * SHARE), min(count, FEWEST))
