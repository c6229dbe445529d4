"""A process that runs one sync: `python -m bench.connect.child`, with its order as JSON on standard input.

Prints its events as they come, if it is asked for them, and its seconds, rows and memory in the last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.connect import stream_job
from gauss.connect.stream_job import StreamJob
from gauss.connect.sync import Sync
from gauss.model.paths import DataDir

LANES: list[str] = []
"""The encoding in which each stream is passed on without becoming Arrow; empty if there is none."""


def main() -> None:
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    with on_spark(folder / "spark") if order.get("spark") else nullcontext():
        if "warm" in order:
            moved(order["warm"], order, folder, lambda _: None)
        peaks = Peaks(order.get("half"))
        base = reset_peak()
        began = time.perf_counter()
        read = moved(order["sync"], order, folder, tell if order.get("events") else peaks)
        seconds = time.perf_counter() - began
    found = {"seconds": seconds, "read": read, "opaque": LANES[-1], "base_bytes": base}
    print(json.dumps({**found, "peaks_bytes": [*peaks.found, memory("VmHWM")]}))


class Peaks:
    """Notes the most memory of the first rows of a sync, and starts anew for the rest."""

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self.found: list[int] = []

    def __call__(self, event: dict[str, Any]) -> None:
        if self._rows is not None and event.get("records_read", 0) >= self._rows:
            self._rows = None
            self.found.append(memory("VmHWM"))
            reset_peak()


def moved(
    definition: dict[str, Any], order: dict[str, Any], folder: Path, emit: Callable[[dict[str, Any]], None]
) -> int:
    """Runs a sync; returns the rows that it has read."""
    stream_job.PROGRESS_S = 0.0 if emit is tell else 0.5
    made = SyncDef.model_validate({**definition, "runs_on": "spark" if order.get("spark") else "local"})
    agreed = StreamJob._opaque

    def seen(job: StreamJob, *given: Any) -> str:
        LANES.append(agreed(job, *given))
        return LANES[-1]

    with mock.patch.object(StreamJob, "_opaque", seen):
        result = Sync(made, folder, folder / "data", emit).run()
    if result.status != "succeeded":
        raise SystemExit(f"the sync {result.status}: {result.error}")
    return result.streams[0].read.records_read


def tell(event: dict[str, Any]) -> None:
    """Prints an event at once, in one piece: two threads have some to tell."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def memory(kind: str) -> int:
    """Bytes of this process in memory: `VmRSS` now, `VmHWM` at most since the mark was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{kind}:"))


def reset_peak() -> int:
    """Resets the kernel's mark; returns what is in memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


@contextmanager
def on_spark(folder: Path) -> Iterator[None]:
    """Syncs run on a Spark with two tasks at once, which is started before and outlives them."""
    from gauss.connect.spark import runner
    from gauss.spark import session

    place = DataDir(folder)
    for each in (place.run, place.logs, place.cache):
        each.mkdir(parents=True)
    spark = session.start(SparkSection(master="local[2]"), place, preload=runner.PRELOAD)
    try:
        with (
            mock.patch.object(session, "start", lambda *_, **__: spark),
            mock.patch.object(runner.SparkRunner, "close", lambda _: None),
        ):
            yield
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
