"""Opaque batches: rows in an encoding that source and destination share, such as Postgres' binary COPY."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.connect.attempt import close, typed
from gauss.connect.conformance.bench import SYNC, Bench, find_stream
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.compare import difference, lost_and_doubled
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import KitSync, succeeded, wait_for
from gauss.connect.conformance.scratch import MemoryState, Observed
from gauss.connect.conformance.source_bench import SMALL, SourceBench
from gauss.connect.conformance.target import Target
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.connector import OpaqueSource
from gauss.contracts.connector.errors import BackoffClass, ConnectorError
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import Columns, StreamContext, SyncMode

ROWS = 200
FAILING_CALL = 6
INCREMENTAL = {"mode": "incremental", "cursor": ID, "write": "append"}


def _rows() -> pa.Table:
    """Two columns have the same type: one must not be taken for the other."""
    words = pa.array([f"word {number}" for number in range(ROWS)], pa.string())
    return plain(ROWS).append_column("word", words)


def _sides(bench: Bench) -> tuple[Target, Target]:
    if bench.other is None:
        raise NotApplicable("there is no connector of the same name in the other role")
    sides = bench.target, bench.other
    return sides if bench.role is Role.SOURCE else (sides[1], sides[0])


def _stored(bench: Bench) -> str:
    """A stream with the rows, by the name that the source has for it."""

    def store() -> str:
        stream = bench.stream_name("opaque")
        if isinstance(bench, SourceBench):
            return bench.fill(stream, _rows())
        assert isinstance(bench, DestinationBench)
        bench.write(_rows(), stream)
        reading = bench.sync(_sides(bench)[0].definition(), bench.collector(bench.folder()), "*")
        return find_stream(reading.discover(), stream)

    return bench.cached("opaque", store)


def _copy(bench: Bench, stream: str, table: str, **entry: Any) -> KitSync:
    """A sync from the connector to itself: a stream into another table."""
    source, landing = _sides(bench)
    if landing.spec is not None and "tables" not in landing.spec.config.model_fields:
        raise NotApplicable("the destination has no setting `tables`: a stream can't be copied beside itself")
    more = {"tables": {stream: table}} if landing.spec is None else {}
    named = [{"name": stream, "table": table, "write": "append", **entry}]
    return bench.sync(source.definition(), landing.definition(**more), named, bench.data_dir(table), **SMALL)


def _read(bench: Bench, table: str) -> pa.Table:
    if isinstance(bench, DestinationBench):
        return bench.read_back(table)
    return bench.read_all(_sides(bench)[0].definition(), table)


def _opaque(sync: KitSync) -> KitSync:
    """A sync that has run; not applicable if its rows became Arrow."""
    emitted = sync.records[CheckpointKind.SOURCE].emitted
    if not any(each.kind for each in emitted):
        raise NotApplicable("source and destination share no encoding of these rows (opaque_kind)")
    return sync


def _needs_opaque(bench: Bench) -> None:
    """A class that knows nothing of `tables` would write into the stream that it reads."""
    source = _sides(bench)[0]
    known = _copy(bench, _stored(bench), bench.stream_name("asked")).side(CheckpointKind.SOURCE)
    context = StreamContext(_stored(bench), Columns([]), SyncMode.FULL_REFRESH)
    run = StreamRun(context, MemoryState(), Observed(), pipeline=SYNC)
    connector, _ = known.open(StreamHost(run, CheckpointKind.SOURCE, known.id))
    try:
        kind = typed(lambda: connector.opaque_kind(context)) if isinstance(connector, OpaqueSource) else ""
        if not kind:
            raise NotApplicable(f"{source.connector} has no encoding of its own for these rows (opaque_kind)")
    finally:
        close(connector)


def _copied(bench: Bench) -> tuple[str, KitSync]:
    """A table that was written by opaque batches, which several cases look at."""

    def copy() -> tuple[str, KitSync]:
        table = bench.stream_name("copy")
        _needs_opaque(bench)
        sync = _copy(bench, _stored(bench), table)
        succeeded(bench.run(sync))
        return table, sync

    table, sync = bench.cached("opaque copy", copy)
    return table, _opaque(sync)


def copies(bench: Bench) -> None:
    table, _ = _copied(bench)
    text = difference(_rows(), _read(bench, table))
    check(not text, text)


for _role, _after in ((Role.SOURCE, "read.full_refresh"), (Role.DESTINATION, "write.rows")):
    _expected = "Rows that pass in an encoding of both sides are the same as those in Arrow."
    CASES.add(_role, "opaque.rows", _expected, copies, (_after,))


@CASES.source("opaque.batches", "Opaque batches have the agreed encoding, count their rows and keep max_batch_bytes.")
def emits_what_was_agreed(bench: SourceBench) -> None:
    _, sync = _copied(bench)
    plan, emitted = sync.plan()[0], bench.record(sync).emitted
    with bench.opened(stream=plan.context()) as found:
        kind = found.connector.opaque_kind(plan.context())
    strange = sorted({each.kind or "Arrow" for each in emitted if each.kind != kind})
    check(not strange, f"batches of {', '.join(strange)}, agreed was {kind}")
    count = sum(each.rows for each in emitted)
    check(count == ROWS, f"the batches count {count} rows, there are {ROWS}")
    largest = max(each.size for each in emitted)
    check(largest <= plan.limits.max_batch_bytes, f"a batch of {largest:,} bytes")


@CASES.destination(
    "opaque.column_order", "A table with its columns in another order gets each value in its column.", ("opaque.rows",)
)
def keeps_columns_apart(bench: DestinationBench) -> None:
    bench.needs_reading()
    _copied(bench)
    table, rows = bench.stream_name("turned"), _rows()
    turned = rows.slice(0, 1).select(list(reversed(rows.column_names)))
    bench.write(turned, table, mode="full_refresh")
    sync = _copy(bench, _stored(bench), table)
    succeeded(bench.run(sync))
    text = difference(pa.concat_tables([rows.slice(0, 1), rows]), _read(bench, table))
    check(not text, text)


@CASES.destination(
    "opaque.retry", "After a failed attempt, rows of opaque batches are neither lost nor repeated.", ("opaque.rows",)
)
def resumes(bench: DestinationBench) -> None:
    bench.needs_managed()
    bench.needs_reading()
    _copied(bench)
    table = bench.stream_name("again")
    sync = _copy(bench, _stored(bench), table, **INCREMENTAL)
    source, landing = sync.records[CheckpointKind.SOURCE], sync.records[CheckpointKind.DEST]
    failed: list[int] = []

    def fail() -> None:
        if source.calls == FAILING_CALL and not failed:
            failed.append(source.calls)
            wait_for(lambda: landing.delivered >= len(source.emitted), bench.settings.patience_secs)
            raise ConnectorError.transient_db("KIT", "the kit fails on purpose", backoff_class=BackoffClass.FAST)

    source.on_call = fail
    succeeded(bench.run(sync))
    _opaque(sync)
    check(failed, "the source made too few calls to its host")
    if text := lost_and_doubled(_rows(), _read(bench, table)):
        raise CaseFailed(text)
