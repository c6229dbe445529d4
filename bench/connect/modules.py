"""The sample modules of the kit beside the same connectors in Python, in batches of a megabyte."""

from __future__ import annotations

from typing import Any

from bench.connect.twins import numbers
from bench.connect.world import ROOT, run_child

ROWS = 4_000_000
BATCH_BYTES = 1_000_000
SOURCES = {"wasm": str(ROOT / "sdk/modules/numbers.wasm"), "python": "bench.connect.twins:Numbers"}
DESTINATIONS = {"wasm": str(ROOT / "sdk/modules/totals.wasm"), "python": "bench.connect.twins:Totals"}


def batch_rows() -> int:
    """Rows of a batch."""
    some = numbers(ROWS // 2, ROWS // 2 + 10_000)
    return BATCH_BYTES * int(some.num_rows) // int(some.nbytes)


def seconds(source: str, destination: str, rows: int = ROWS) -> float:
    """Seconds of a sync between the two kinds, `wasm` or `python`."""
    each = batch_rows()

    def sync(name: str, count: int) -> dict[str, Any]:
        return {
            "name": name,
            "source": {"connector": SOURCES[source], "rows": count, "batch_rows": each},
            "destination": {"connector": DESTINATIONS[destination]},
            "streams": [{"name": "numbers", "write": "append"}],
            # The sample makes no batch of which a row might have more than 64 bytes.
            "limits": {"max_batch_bytes": 64 * (each + 1)},
        }

    done = run_child({"warm": sync("warm", 2 * each), "sync": sync("sync", rows)})
    assert done.read == rows
    return done.seconds
