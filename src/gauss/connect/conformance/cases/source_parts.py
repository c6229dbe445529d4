"""Reads in parts, by several instances."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.connect.attempt import Attempt, close, typed
from gauss.connect.conformance.bench import SYNC
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, check
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import difference, same_rows
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.kit_sync import KitSync, described
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.conformance.source_bench import SourceBench
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.connector import PartitionedSource
from gauss.contracts.connector.progress import CheckpointKind

PARTS = 3
ROWS = 2_000


@CASES.source("parts.complete", "The parts of a stream hold each row once.")
def divides(bench: SourceBench) -> None:
    stream = bench.stream()
    _needs_parts(bench)
    sync, parts, planner = _planned(bench, stream)
    try:
        found = _read_parts(bench, sync, parts, stream)
    finally:
        close(planner)
    text = same_rows(bench.read(stream).rows, found)
    check(not text, f"{len(parts)} parts: {text}")


@CASES.source(
    "parts.one_snapshot", "Parts do not see rows that were written after they were planned.", ("parts.complete",)
)
def divides_one_state(bench: SourceBench) -> None:
    _needs_parts(bench)
    rows = plain(ROWS)
    name = bench.stream_name("parts")
    for first in range(0, ROWS, ROWS // PARTS + 1):  # several files, where a stream consists of files
        stream = bench.fill(name, rows.slice(first, ROWS // PARTS + 1))
    sync, parts, planner = _planned(bench, stream)
    try:
        if len(parts) < 2:
            raise NotApplicable("the source reads a stream of this size in one part")
        bench.fill(name, plain(100, first=ROWS + 1))
        found = _read_parts(bench, sync, parts, stream)
    finally:
        close(planner)
    text = difference(rows, found)
    check(not text, f"{len(parts)} parts: {text}")


def _needs_parts(bench: SourceBench) -> None:
    if not isinstance(bench.make().connector, PartitionedSource):
        raise NotApplicable("not a PartitionedSource")


def _planned(bench: SourceBench, stream: str) -> tuple[KitSync, list[Any], Any]:
    """The parts, and the instance that has planned them and keeps their snapshot."""
    spec = bench.target.spec
    smallest = {"partition_bytes": 1} if spec is not None and "partition_bytes" in spec.config.model_fields else {}
    sync = bench.prepare(stream, bench.folder(), config=smallest)
    context = sync.plan()[0].context()
    run = StreamRun(context, MemoryState(), Observed(), pipeline=SYNC)
    side = sync.side(CheckpointKind.SOURCE)
    planner, _ = side.open(StreamHost(run, CheckpointKind.SOURCE, side.id))
    return sync, typed(lambda: planner.partitions(context, PARTS)), planner


def _read_parts(bench: SourceBench, sync: KitSync, parts: list[Any], stream: str) -> pa.Table:
    """The rows of all parts, one after the other."""
    found = []
    for number, part in enumerate(parts):
        folder = bench.folder()
        whole = bench.prepare(stream, folder)
        context = sync.plan()[0].context()
        run = StreamRun(context, MemoryState(), Observed(), pipeline=SYNC, partition=part)
        destination = whole.side(CheckpointKind.DEST)
        manager, _ = destination.open(StreamHost(run, CheckpointKind.DEST, destination.id))
        manager.prepare(context, [], 1)
        outcome = Attempt(run, sync.side(CheckpointKind.SOURCE), destination)()
        if outcome.error is not None:
            raise CaseFailed(f"part {number + 1} of {len(parts)}: {described(outcome.error)}")
        found.append(collected(folder, stream, full=True))
    parts_with_rows = [each for each in found if each.num_columns]
    return pa.concat_tables(parts_with_rows) if parts_with_rows else pa.table({})
