"""Incremental reads: cursors, ties, checkpoints and resumption."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import difference, lost_and_doubled, same_rows
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import described, start, succeeded
from gauss.connect.conformance.source_bench import ROWS, Read, SourceBench
from gauss.connect.plan import cursor_type
from gauss.contracts.connector.cursor import (
    CursorType,
    CursorValue,
    DecimalCursor,
    Int64Cursor,
    JsonCursor,
    TimestampMicrosCursor,
    TimestampMillisCursor,
    Utf8Cursor,
)
from gauss.contracts.connector.errors import ErrorCategory

RESUMES = ("read.full_refresh", "incremental.resumes")
POSITIONS = 5
"""How many checkpoints are resumed from."""


def whole(bench: SourceBench) -> Read:
    """An incremental read from the start, which several cases look at."""
    stream = bench.stream()
    return bench.cached("whole", lambda: bench.read(stream, cursor=bench.incremental(stream)))


@CASES.source("incremental.final_checkpoint", "The last checkpoint is behind the last batch.")
def ends_with_a_checkpoint(bench: SourceBench) -> None:
    record = bench.record(whole(bench).sync)
    last = record.checkpoints[-1].id if record.checkpoints else 0
    check(last == len(record.emitted), f"the last checkpoint is {last}, the last batch {len(record.emitted)}")


@CASES.source(
    "incremental.resumes",
    "A second run of an incremental stream reads nothing when nothing is new.",
    ("read.full_refresh", "incremental.final_checkpoint"),
)
def reads_only_once(bench: SourceBench) -> None:
    stream, data_dir = bench.stream(), bench.folder()
    cursor = bench.incremental(stream)
    first = bench.read(stream, cursor=cursor, data_dir=data_dir)
    check(bench.stored_cursor(first, stream) is not None, "no cursor was stored: the source made no checkpoint")
    second = bench.read(stream, cursor=cursor, data_dir=data_dir)
    check(not second.rows.num_rows, f"the second run read {second.rows.num_rows} rows again")


@CASES.source("incremental.whole", "The first run of an incremental stream reads all rows.", RESUMES)
def reads_all_at_first(bench: SourceBench) -> None:
    found = whole(bench)
    text = difference(plain(ROWS), found.rows) if bench.is_own else ""
    check(not text, text)


@CASES.source(
    "incremental.positions",
    "From the cursor of any checkpoint, a read goes on behind the batches before it: no row lost or repeated.",
    (*RESUMES, "incremental.whole"),
)
def goes_on_from_any_checkpoint(bench: SourceBench) -> None:
    stream, found = bench.stream(), whole(bench)
    cursor, record = bench.incremental(stream), bench.record(found.sync)
    counts = [each.rows for each in record.emitted]
    marks = [each for each in record.checkpoints if each.cursor_value is not None and each.id < len(counts)]
    for mark in bench.random.sample(marks, min(POSITIONS, len(marks))):
        before = found.rows.slice(0, sum(counts[: mark.id]))
        rest = bench.read_from(stream, cursor, mark.cursor_value)
        succeeded(rest.result)
        both = pa.concat_tables([before, rest.rows]) if rest.rows.num_columns else before
        text = _repeated(found.rows, both)
        check(not text, f"from checkpoint {mark.id} of {len(counts)} batches: {text}")


def _repeated(wanted: pa.Table, found: pa.Table) -> str:
    if ID in wanted.column_names:
        return lost_and_doubled(wanted, found)
    return same_rows(wanted, found)


@CASES.source("incremental.stop_and_go", "A run that was drained is continued: no row lost or repeated.", RESUMES)
def goes_on_after_a_stop(bench: SourceBench) -> None:
    stream, folder, data_dir = bench.stream(), bench.folder(), bench.folder()
    cursor = bench.incremental(stream)
    slow: dict[str, Any] = {"collector": {"pause_s": 0.002}, "limits": bench.one_at_a_time()}
    sync = bench.prepare(stream, folder, cursor=cursor, data_dir=data_dir, **slow)
    sync.on_event = lambda event: sync.drain() if event["event"] == "checkpoint" else None
    bench.must_end(start(sync), "it was drained")
    succeeded(bench.run(bench.prepare(stream, folder, cursor=cursor, data_dir=data_dir)))
    text = _repeated(whole(bench).rows, collected(folder, stream, full=False))
    check(not text, text)


@CASES.source("incremental.new_rows", "The next run reads the rows that were added, and only those.", RESUMES)
def reads_what_is_new(bench: SourceBench) -> None:
    stream = bench.fill(name := bench.stream_name("growing"), plain(100))
    cursor, data_dir = bench.incremental(stream), bench.folder()
    bench.read(stream, cursor=cursor, data_dir=data_dir)
    added = plain(30, first=101)
    bench.fill(name, added)
    text = difference(added, bench.read(stream, cursor=cursor, data_dir=data_dir).rows)
    check(not text, text)


_DAY = dt.datetime(2024, 1, 1)
CURSORS: dict[str, tuple[pa.DataType, Any]] = {
    "int64": (pa.int64(), lambda n: n * 10),
    "utf8": (pa.string(), lambda n: f"key {n:06}"),
    "timestamp_millis": (pa.timestamp("ms"), lambda n: _DAY + dt.timedelta(milliseconds=n)),
    "timestamp_micros": (pa.timestamp("us"), lambda n: _DAY + dt.timedelta(microseconds=n)),
    "decimal": (pa.decimal128(18, 6), lambda n: Decimal(n) / 1_000_000),
}


def _ordered(kind: pa.DataType, value: Any, count: int, first: int = 1) -> pa.Table:
    rows = plain(count, first)
    return rows.append_column("at", pa.array([value(id) for id in rows.column(ID).to_pylist()], kind))


def _cursor_case(name: str, kind: pa.DataType, value: Any) -> None:
    def run(bench: SourceBench) -> None:
        stream = bench.fill(filled := bench.stream_name(f"by_{name}"), _ordered(kind, value, 100))
        cursor, data_dir = bench.incremental(stream, "at"), bench.folder()
        first = bench.read(stream, cursor=cursor, data_dir=data_dir)
        text = difference(_ordered(kind, value, 100), first.rows)
        check(not text, f"first run: {text}")
        found = bench.stored_cursor(first, stream)
        there = next(each for each in bench.entry(stream).schema if each.name == "at")
        wanted = cursor_type(first.rows.schema.field("at").type)
        own = isinstance(found, JsonCursor)  # a position of the source's own
        check(
            own or (found is not None and wanted == found.TAG), f"the cursor of {there.data_type} is stored as {found}"
        )
        added = _ordered(kind, value, 30, first=101)
        bench.fill(filled, added)
        second = bench.read(stream, cursor=cursor, data_dir=data_dir)
        text = difference(added, second.rows)
        check(not text, f"second run: {text}")

    expected = f"A cursor of type {name} is stored with its type, and the next run reads what is behind it."
    CASES.add(Role.SOURCE, f"incremental.cursor.{name}", expected, run, (*RESUMES, "incremental.new_rows"))


for _name, (_kind, _value) in CURSORS.items():
    _cursor_case(_name, _kind, _value)


@CASES.source(
    "incremental.ties",
    "Rows with equal cursors are neither lost nor repeated at a batch boundary.",
    (*RESUMES, "incremental.positions"),
)
def survives_ties(bench: SourceBench) -> None:
    rows = plain(200)
    rows = rows.append_column("at", pa.array([1 + (id - 1) // 70 for id in range(1, 201)], pa.int64()))
    stream = bench.fill(bench.stream_name("ties"), rows)
    cursor = bench.incremental(stream, "at")
    found = bench.read(stream, cursor=cursor)
    text = difference(rows, found.rows)
    check(not text, text)
    record = bench.record(found.sync)
    counts = [each.rows for each in record.emitted]
    marks = [each for each in record.checkpoints if each.cursor_value is not None and each.id < len(counts)]
    for mark in bench.random.sample(marks, min(POSITIONS, len(marks))):
        rest = bench.read_from(stream, cursor, mark.cursor_value)
        succeeded(rest.result)
        before = found.rows.slice(0, sum(counts[: mark.id]))
        both = pa.concat_tables([before, rest.rows]) if rest.rows.num_columns else before
        text = lost_and_doubled(rows, both)
        check(not text, f"from checkpoint {mark.id} of {len(counts)} batches: {text}")


@CASES.source("incremental.null_cursor", "Rows whose cursor is NULL are read once.", RESUMES)
def reads_null_cursors_once(bench: SourceBench) -> None:
    rows = plain(60)
    rows = rows.append_column("at", pa.array([None if id % 6 == 0 else id for id in range(1, 61)], pa.int64()))
    stream = bench.fill(bench.stream_name("nulls"), rows)
    cursor, data_dir, folder = bench.incremental(stream, "at"), bench.folder(), bench.folder()
    for _ in range(2):
        bench.read(stream, folder, cursor=cursor, data_dir=data_dir)
    text = difference(rows, collected(folder, stream, full=False))
    check(not text, text)


FAR: dict[CursorType, CursorValue] = {
    CursorType.INT64: Int64Cursor(2**63 - 1),
    CursorType.UTF8: Utf8Cursor("\U0010ffff" * 20),
    CursorType.TIMESTAMP_MILLIS: TimestampMillisCursor(253_402_300_799_000),
    CursorType.TIMESTAMP_MICROS: TimestampMicrosCursor(253_402_300_799_000_000),
    CursorType.DECIMAL: DecimalCursor("999999999999999999999999999999", 0),
}


@CASES.source(
    "state.large_values", "A cursor far behind all rows reads nothing, or is refused as config or data.", RESUMES
)
def takes_large_state(bench: SourceBench) -> None:
    stream = bench.stream()
    cursor, found = bench.incremental(stream), bench.stored_cursor(whole(bench), bench.stream())
    kind = next((each for each in CursorType if found is not None and each == found.TAG), None)
    if kind is None or kind not in FAR:
        raise NotApplicable("the source keeps a position of its own")
    read = bench.read_from(stream, cursor, FAR[kind])
    _refused_or_empty(read)


@CASES.source(
    "state.wrong_type", "A cursor of another type is refused as config, data or schema, not retried.", RESUMES
)
def refuses_a_wrong_cursor(bench: SourceBench) -> None:
    stream = bench.stream()
    cursor = bench.incremental(stream)
    for wrong in (JsonCursor({"nobody": ["knows", "this"]}), DecimalCursor("not a number", -5)):
        read = bench.read_from(stream, cursor, wrong)
        if read.result.error is None:
            raise CaseFailed(f"the cursor {wrong} was accepted, {read.rows.num_rows} rows were read")
        _typed(read)


def _refused_or_empty(read: Read) -> None:
    if read.result.error is None:
        check(not read.rows.num_rows, f"{read.rows.num_rows} rows were read")
        return
    _typed(read)


def _typed(read: Read) -> None:
    error = read.result.error
    good = error is not None and error.category in (ErrorCategory.CONFIG, ErrorCategory.DATA, ErrorCategory.SCHEMA)
    check(good, described(error))
