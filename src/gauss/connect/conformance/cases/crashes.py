"""kill -9 of the whole sync, and resumption."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, check
from gauss.connect.conformance.cases.source_incremental import _repeated, whole
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import difference, lost_and_doubled
from gauss.connect.conformance.crash import kill_runs
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import KitSync, succeeded
from gauss.connect.conformance.source_bench import SourceBench

ROWS, BATCH = 600, 10


def _calls(sync: KitSync) -> int:
    return sum(record.calls for record in sync.records.values())


@CASES.source(
    "crash.incremental",
    "After kill -9 at random points and a resumption, no row is lost or repeated.",
    ("incremental.resumes", "incremental.positions"),
)
def survives_kills(bench: SourceBench) -> None:
    stream, folder, data_dir = bench.stream(), bench.folder(), bench.folder()
    cursor = bench.incremental(stream)

    def make() -> KitSync:
        return bench.prepare(stream, folder, cursor=cursor, data_dir=data_dir)

    kill_runs(bench, _calls(whole(bench).sync), make, lambda: None, bench.settings.kills)
    succeeded(bench.run(make()))
    text = _repeated(whole(bench).rows, collected(folder, stream, full=False))
    check(not text, f"seed {bench.settings.seed}: {text}")


@CASES.destination("crash.append", "After kill -9 at random points and a resumption, no row is lost or repeated.")
def survives_kills_of_appends(bench: DestinationBench) -> None:
    bench.needs_reading()
    stream, rows = bench.stream_name("killed"), plain(ROWS)
    how: dict[str, Any] = {"generator": {"batch_rows": BATCH}}
    model = bench.write(rows, bench.stream_name("model"), **how)

    def make() -> KitSync:
        return bench.prepare(rows, stream, **how)

    kill_runs(bench, _calls(model.sync), make, lambda: None, bench.settings.kills)
    succeeded(bench.run(make()))
    found = bench.read_back(stream)
    if not bench.is_exact():  # rows behind the last checkpoint may come again
        found = found.group_by(ID).aggregate([])
    text = lost_and_doubled(rows, found) or (difference(rows, found) if bench.is_exact() else "")
    check(not text, f"seed {bench.settings.seed}: {text}")


@CASES.destination(
    "crash.replace", "After kill -9 in a full refresh, the rows of the one before are there, whole.", ("write.replace",)
)
def survives_kills_of_refreshes(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    bench.needs_mode("replace")
    stream = bench.stream_name("swapped")
    old, new = plain(ROWS), plain(ROWS, word="new")
    model = bench.write(old, stream, write="replace", generator={"batch_rows": BATCH})

    def make() -> KitSync:
        return bench.prepare(new, stream, write="replace", generator={"batch_rows": BATCH})

    def look() -> None:
        _one_of(bench.read_back(stream), old, new)

    kill_runs(bench, _calls(model.sync), make, look, (bench.settings.kills + 1) // 2)
    succeeded(bench.run(make()))
    bench.must_hold(stream, new)


def _one_of(found: pa.Table, old: pa.Table, new: pa.Table) -> None:
    text = difference(old, found)
    if text and difference(new, found):
        raise CaseFailed(f"after a kill: {text}")
