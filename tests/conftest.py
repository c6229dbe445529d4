"""Settings of every test run."""

from __future__ import annotations

import os
from pathlib import Path

# One class archive for all JVMs that tests start: else each data directory would train one of its own.
os.environ.setdefault("GAUSS_CACHE_DIR", str(Path(__file__).parents[1] / ".cache"))
