"""Writing: rows, checkpoints, summaries, names and tables."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.attempt import typed
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, check
from gauss.connect.conformance.cases.lifecycle import OPEN
from gauss.connect.conformance.compare import lost_and_doubled
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench, Wrote
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import succeeded
from gauss.connect.stream_job import planned_table
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.progress import Checkpoint
from gauss.contracts.connector.stream import StreamContext

ROWS, BATCH = 400, 50


def first(bench: DestinationBench) -> tuple[str, Wrote]:
    """A stream that was written once, which several cases look at."""

    def write() -> tuple[str, Wrote]:
        stream = bench.stream_name("plain")
        return stream, bench.try_write(plain(ROWS), stream, generator={"batch_rows": BATCH})

    return bench.cached("first", write)


@CASES.destination("write.rows", "An incremental stream is written to its end, each row once.", OPEN)
def writes_rows(bench: DestinationBench) -> None:
    stream, wrote = first(bench)
    succeeded(wrote.result)
    try:
        bench.needs_reading()
    except NotApplicable:  # that it came to its end is seen all the same
        return
    bench.must_hold(stream, plain(ROWS))


@CASES.destination("write.summary", "The WriteSummary counts the rows and batches that were written.")
def sums_up(bench: DestinationBench) -> None:
    summary = first(bench)[1].result.streams[0].write
    check(summary.records_written == ROWS, f"records_written = {summary.records_written} of {ROWS}")
    check(summary.batches_written == ROWS // BATCH, f"batches_written = {summary.batches_written} of {ROWS // BATCH}")


@CASES.destination(
    "write.checkpoint_ids", "Checkpoint ids grow, count delivered batches, and the last covers them all."
)
def numbers_checkpoints(bench: DestinationBench) -> None:
    record, last = bench.record(first(bench)[1].sync), 0
    for each, delivered in zip(record.checkpoints, record.behind, strict=True):
        check(last <= each.id <= delivered, f"checkpoint {each.id} after {last}, with {delivered} batches delivered")
        last = each.id
    check(last == ROWS // BATCH, f"the last checkpoint is {last} of {ROWS // BATCH} batches")


@CASES.destination("write.checkpoint_after_commit", "When a checkpoint is sent, its batches are already visible.")
def commits_before_checkpoints(bench: DestinationBench) -> None:
    bench.needs_reading()
    stream = bench.stream_name("commits")
    sync = bench.prepare(plain(200), stream, generator={"batch_rows": BATCH})
    missing: list[str] = []

    def look(checkpoint: Checkpoint) -> None:
        if checkpoint.id and not missing:
            expected = plain(min(checkpoint.id * BATCH, 200))
            there = bench.read_back(stream)
            ids = set(there.column(ID).to_pylist()) if ID in there.column_names else set()
            gone = [id for id in expected.column(ID).to_pylist() if id not in ids]
            if gone:
                missing.append(f"at checkpoint {checkpoint.id}, {len(gone)} of {expected.num_rows} rows are not there")

    bench.record(sync).on_checkpoint = look
    succeeded(bench.run(sync))
    check(not missing, missing[0] if missing else "")


@CASES.destination(
    "write.no_calls_after_return", "After run_write has returned, the destination calls the host no more."
)
def is_quiet_at_its_end(bench: DestinationBench) -> None:
    record = bench.record(first(bench)[1].sync)
    check(not record.late, f"{', '.join(dict.fromkeys(record.late))} was called after run_write had returned")


@CASES.destination("write.empty_stream", "A stream without rows is written without an error.")
def writes_nothing(bench: DestinationBench) -> None:
    stream = bench.stream_name("empty")
    bench.write(plain(0), stream)
    if bench.is_managed:
        _must_exist(bench, stream)


def _must_exist(bench: DestinationBench, stream: str) -> None:
    context = bench.prepare(plain(0), stream).plan()[0].context()
    with bench.opened(stream=context) as found:
        check(found.connector.describe(context) is not None, "the table does not exist")


@CASES.destination("write.large_record", "A record of 1 MB is written whole.")
def writes_large_records(bench: DestinationBench) -> None:
    bench.needs_reading()
    rows = plain(3)
    rows = rows.set_column(1, "name", pa.array(["a", "x" * 1_000_000, "c"], pa.string()))
    stream = bench.stream_name("large")
    bench.write(rows, stream)
    bench.must_hold(stream, rows)


HOSTILE = [
    'quo"te',
    "apo'strophe",
    "semi;colon --",
    "ünïcode 漢",
    "select",
    "UPPER",
    "with space",
    "per%cent",
    "back\\",
]


@CASES.destination("write.hostile_columns", "Columns with any name are written, or refused with a typed error.")
def quotes_columns(bench: DestinationBench) -> None:
    bench.needs_reading()
    rows = plain(5)
    for name in HOSTILE:
        rows = rows.append_column(name, pa.array([f"{name} {row}" for row in range(5)], pa.string()))
    stream = bench.stream_name("names")
    bench.write(rows, stream)
    bench.must_hold(stream, rows)


@CASES.destination("write.hostile_stream", "A stream with any name is written, or refused with a typed error.")
def quotes_streams(bench: DestinationBench) -> None:
    stream = f"{bench.stream_name('it')}'s \"; drop"
    wrote = bench.try_write(plain(5), stream)
    error = wrote.result.error
    check(error is None or error.code != "UNEXPECTED", f"an error without a type: {error.message if error else ''}")


@CASES.destination("write.table_is_stable", "A second run of the same columns changes nothing of the table.")
def describes_what_it_made(bench: DestinationBench) -> None:
    bench.needs_managed()
    rows, stream = plain(5), bench.stream_name("stable")
    bench.write(rows, stream)
    change = bench.prepare(rows, stream).dry_run()[0]
    found = "; ".join([*map(str, change.changes), *change.statements])
    check(not change.changes and not change.statements, found)


@CASES.destination("write.dry_run", "A dry run does not create the table.")
def plans_without_changes(bench: DestinationBench) -> None:
    bench.needs_managed()
    sync = bench.prepare(plain(5), bench.stream_name("dry"))
    plan = sync.plan()[0]
    context: StreamContext = plan.context()
    with bench.opened(stream=context) as found:
        planned_table(found.connector, found.info, context, plan.schema())
        check(found.connector.describe(context) is None, "the table exists after its statements were asked for")


@CASES.destination("write.watermark", "The watermark has the generation and the cursor of the last commit.")
def keeps_a_watermark(bench: DestinationBench) -> None:
    bench.needs_managed()
    stream, _ = first(bench)
    context = bench.prepare(plain(ROWS), stream).plan()[0].context()
    with bench.opened(stream=context) as found:
        mark = typed(lambda: found.connector.watermark(context, ""))
    check(mark is not None, "there is none after a run")
    check(mark.cursor == Int64Cursor(ROWS), f"its cursor is {mark.cursor}, the last one {Int64Cursor(ROWS)}")
    check(mark.generation > 0, f"its generation is {mark.generation}")


@CASES.destination("write.next_run", "The next run adds what is new, each row once.")
def goes_on(bench: DestinationBench) -> None:
    bench.needs_reading()
    stream = bench.stream_name("next")
    bench.write(plain(100), stream)
    bench.write(plain(150), stream)
    if text := lost_and_doubled(plain(150), bench.read_back(stream)):
        raise CaseFailed(text)
