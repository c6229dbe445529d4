"""Full refreshes: what is emitted, how, and what is reported of it."""

from __future__ import annotations

import threading

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, check
from gauss.connect.conformance.cases.lifecycle import OPEN
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.compare import difference, same_rows
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import described, start, succeeded, wait_for
from gauss.connect.conformance.source_bench import ROWS, Read, SourceBench
from gauss.contracts.connector.arrow_types import arrow_schema
from gauss.contracts.connector.errors import ErrorCategory
from gauss.contracts.connector.host import BATCH_OVERHEAD_BYTES
from gauss.contracts.connector.stream import SyncMode

READ = ("read.full_refresh",)
FOUND = (*OPEN, "lifecycle.discover")


def full(bench: SourceBench) -> Read:
    """A full refresh that several cases look at."""

    def read() -> Read:
        stream = bench.stream()
        return bench.try_read(stream) if _has_full(bench) else bench.try_read(stream, cursor=bench.incremental(stream))

    return bench.cached("full", read)


@CASES.source("read.no_empty_batches", "Every batch that is emitted has at least one row.", FOUND)
def emits_no_empty_batches(bench: SourceBench) -> None:
    emitted = bench.record(full(bench).sync).emitted
    empty = [number for number, each in enumerate(emitted, 1) if not each.rows and not each.fault]
    check(not empty, f"batch {empty[0] if empty else 0} has no rows")


@CASES.source("read.batch_size", "No batch is larger than max_batch_bytes.", FOUND)
def keeps_the_batch_limit(bench: SourceBench) -> None:
    found = full(bench)
    limit = found.sync.plan()[0].limits.max_batch_bytes
    large = [each.size for each in bench.record(found.sync).emitted if each.size > _most(bench, limit)]
    check(not large, f"a batch of {max(large, default=0):,} bytes, max_batch_bytes is {limit:,}")


@CASES.source(
    "read.ipc_batches", "Batches in Arrow IPC, compressed or not, can be read and hold at most max_batch_bytes.", FOUND
)
def emits_readable_batches(bench: SourceBench) -> None:
    found = full(bench)
    packed = [each for each in bench.record(found.sync).emitted if each.fault or each.unpacked is not None]
    if not packed:
        raise NotApplicable("the source emits record batches of pyarrow")
    most = _most(bench, found.sync.plan()[0].limits.max_batch_bytes)
    fault = next((each.fault for each in packed if each.fault), "")
    check(not fault, fault)
    largest = max(each.unpacked or 0 for each in packed)
    check(largest <= most, f"a batch of {largest:,} bytes when it is decompressed, at most {most:,} are allowed")


@CASES.source("read.agreed_encoding", "Opaque batches are emitted only if both sides agreed on their encoding.", FOUND)
def emits_arrow_batches(bench: SourceBench) -> None:
    kinds = sorted({each.kind for each in bench.record(full(bench).sync).emitted if each.kind})
    check(not kinds, f"opaque batches of {', '.join(kinds)}, which the destination does not take")


@CASES.source("read.checkpoint_ids", "Checkpoint ids grow, and count batches that were emitted before them.", FOUND)
def numbers_checkpoints(bench: SourceBench) -> None:
    record, last = bench.record(full(bench).sync), 0
    for each, emitted in zip(record.checkpoints, record.behind, strict=True):
        check(last <= each.id <= emitted, f"checkpoint {each.id} after {last}, with {emitted} batches emitted")
        last = each.id


@CASES.source(
    "read.full_refresh",
    "A full refresh emits all rows of the stream and succeeds.",
    (
        *(*FOUND, "read.no_empty_batches", "read.batch_size", "read.ipc_batches"),
        *("read.agreed_encoding", "read.checkpoint_ids"),
    ),
)
def reads_everything(bench: SourceBench) -> None:
    found = full(bench)
    succeeded(found.result)
    if bench.is_own and (text := difference(plain(ROWS), found.rows)):
        raise CaseFailed(text)


@CASES.source("read.twice", "Two reads of unchanged data emit the same rows.")
def reads_the_same_twice(bench: SourceBench) -> None:
    stream = bench.stream()
    first = full(bench)
    second = bench.read(stream) if _has_full(bench) else bench.read(stream, cursor=bench.incremental(stream))
    text = same_rows(first.rows, second.rows)
    check(not text, text)


@CASES.source("read.schema", "Batches have the columns of the catalog, with their types.")
def emits_the_catalog_columns(bench: SourceBench) -> None:
    found = full(bench)
    wanted = arrow_schema(bench.entry(bench.stream()).schema)
    for number, each in enumerate(bench.record(found.sync).emitted, 1):
        if each.schema is None:
            continue
        check(each.schema.names == wanted.names, f"batch {number} has columns {', '.join(each.schema.names)}")
        for name in wanted.names:
            kind, expected = each.schema.field(name).type, wanted.field(name).type
            same = kind == expected or isinstance(kind, pa.BaseExtensionType)
            check(same, f"batch {number}: {name} is {kind}, in the catalog {expected}")


@CASES.source("read.summary", "The ReadSummary counts the rows, batches and checkpoints that were emitted.")
def sums_up(bench: SourceBench) -> None:
    found = full(bench)
    record, summary = bench.record(found.sync), found.result.streams[0].read
    rows = sum(each.rows for each in record.emitted)
    check(summary.records_read == rows, f"records_read = {summary.records_read}, emitted {rows}")
    batches = len(record.emitted)
    check(summary.batches_emitted == batches, f"batches_emitted = {summary.batches_emitted}, emitted {batches}")


@CASES.source("read.no_calls_after_return", "After run_read has returned, the source calls the host no more.")
def is_quiet_at_its_end(bench: SourceBench) -> None:
    before = set(threading.enumerate())
    read = bench.read(bench.stream()) if _has_full(bench) else full(bench)
    record = bench.record(read.sync)
    wait_for(lambda: not (set(threading.enumerate()) - before), min(2.0, bench.settings.patience_secs))
    check(not record.late, f"{', '.join(dict.fromkeys(record.late))} was called after run_read had returned")


@CASES.source("read.slow_destination", "A slow destination, with one batch under way, gets the same rows.")
def waits_for_the_destination(bench: SourceBench) -> None:
    if not bench.is_own:
        raise NotApplicable("the kit slows down streams of its own only")
    found = bench.read(bench.stream(), collector={"pause_s": 0.005}, limits=bench.one_at_a_time())
    text = same_rows(full(bench).rows, found.rows)
    check(not text, text)


@CASES.source("read.snapshot", "Rows that are written during a full refresh are all read, or none of them.")
def reads_one_state(bench: SourceBench) -> None:
    stream = bench.fill(name := bench.stream_name("moving"), plain(ROWS))
    folder = bench.folder()
    sync = bench.prepare(stream, folder, collector={"pause_s": 0.02}, limits=bench.one_at_a_time())
    running = start(sync)
    if not wait_for(lambda: bench.record(sync).emitted or not running.thread.is_alive(), 30):
        raise CaseFailed("nothing was emitted within 30 s")
    bench.fill(name, plain(50, first=ROWS + 1))
    succeeded(bench.finish(running))
    found = collected(folder, stream, full=True)
    seen = [id for id in found.column(ID).to_pylist() if id > ROWS]
    check(len(seen) in (0, 50), f"{len(seen)} of 50 rows that were written together")
    text = difference(plain(ROWS + len(seen)), found)
    check(not text, text)


@CASES.source("read.large_record", "A record above max_record_bytes is a data error; with dlq all others are read.")
def rejects_large_records(bench: SourceBench) -> None:
    rows = plain(50)
    names = rows.column("name").to_pylist()
    names[20] = "x" * 100_000
    rows = rows.set_column(1, "name", pa.array(names, pa.string()))
    stream = bench.fill(bench.stream_name("large"), rows)
    limits = {"max_record_bytes": 50_000, "max_batch_bytes": 65_536}
    failed = bench.try_read(stream, limits=limits).result
    if failed.error is None:
        raise CaseFailed("with on_data_error = fail: the run succeeded")
    check(failed.error.category is ErrorCategory.DATA, f"with on_data_error = fail: {described(failed.error)}")
    kept = bench.read(stream, limits=limits, policies={"on_data_error": "dlq"})
    letters = kept.result.streams[0].letters
    check(letters == 1, f"with on_data_error = dlq: {letters} dead letters")
    text = difference(rows.filter(pa.array([name != names[20] for name in names])), kept.rows)
    check(not text, text)


@CASES.source("read.projection", "A setting `columns` limits the columns that are read.")
def projects(bench: SourceBench) -> None:
    spec = bench.target.spec
    if spec is None or "columns" not in spec.config.model_fields:
        raise NotApplicable("the source has no setting `columns`")
    stream = bench.stream()
    wanted = [each.name for each in bench.entry(stream).schema][:2]
    found = bench.read(stream, config={"columns": {stream: wanted}})
    check(found.rows.column_names == wanted, f"columns {', '.join(found.rows.column_names)}")
    text = same_rows(full(bench).rows.select(wanted), found.rows)
    check(not text, text)


def _most(bench: SourceBench, limit: int) -> int:
    """The largest batch; of a stream that is not the kit's own, with an envelope."""
    return limit if bench.is_own else limit + BATCH_OVERHEAD_BYTES


def _has_full(bench: SourceBench) -> bool:
    return SyncMode.FULL_REFRESH in bench.entry(bench.stream()).supported_sync_modes
