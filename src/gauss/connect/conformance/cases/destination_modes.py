"""Write modes: append, replace and upsert."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, check
from gauss.connect.conformance.compare import difference, lost_and_doubled
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench, Wrote
from gauss.connect.conformance.generator import ID
from gauss.connect.conformance.kit_sync import succeeded


@CASES.destination("write.append", "append adds the rows of every full refresh.")
def appends(bench: DestinationBench) -> None:
    bench.needs_mode("append")
    bench.needs_reading()
    stream = bench.stream_name("append")
    for first in (1, 51):
        bench.write(plain(50, first), stream, mode="full_refresh", write="append")
    bench.must_hold(stream, plain(100))


@CASES.destination(
    "write.no_checkpoints", "A full refresh is written whole though its source makes no checkpoint.", ("write.append",)
)
def needs_no_checkpoints(bench: DestinationBench) -> None:
    bench.needs_mode("append")
    bench.needs_reading()
    stream = bench.stream_name("unmarked")
    how = {"batch_rows": 20, "checkpoint_batches": 0}
    bench.write(plain(100), stream, mode="full_refresh", write="append", generator=how)
    bench.must_hold(stream, plain(100))


@CASES.destination("write.replace", "replace leaves the rows of the last full refresh only.")
def replaces(bench: DestinationBench) -> None:
    bench.needs_mode("replace")
    bench.needs_reading()
    stream = bench.stream_name("replace")
    bench.write(plain(80), stream, write="replace")
    bench.write(plain(30, first=61, word="new"), stream, write="replace")
    bench.must_hold(stream, plain(30, first=61, word="new"))


@CASES.destination("write.replace_with_nothing", "replace by an empty stream leaves no rows.", ("write.replace",))
def replaces_with_nothing(bench: DestinationBench) -> None:
    bench.needs_mode("replace")
    bench.needs_reading()
    stream = bench.stream_name("emptied")
    bench.write(plain(20), stream, write="replace")
    bench.write(plain(0), stream, write="replace")
    left = bench.read_back(stream).num_rows
    check(not left, f"{left} rows are left")


@CASES.destination(
    "write.replace_is_atomic",
    "A full refresh that fails half-way leaves the rows of the one before.",
    ("write.replace",),
)
def keeps_the_old_rows(bench: DestinationBench) -> None:
    bench.needs_mode("replace")
    bench.needs_reading()
    bench.needs_managed()
    stream = bench.stream_name("atomic")
    bench.write(plain(80), stream, write="replace")
    fail = {"row": 20, "category": "internal", "unless": str(bench.place("failed"))}
    wrote = bench.try_write(plain(60, word="new"), stream, write="replace", generator={"fail": fail, "batch_rows": 10})
    check(wrote.result.status == "failed", f"the run {wrote.result.status}, though its source failed")
    bench.must_hold(stream, plain(80))


@CASES.destination("write.upsert", "upsert replaces rows by their key, and adds the others.")
def upserts(bench: DestinationBench) -> None:
    bench.needs_mode("upsert")
    bench.needs_reading()
    stream = bench.stream_name("upsert")
    bench.write(plain(50), stream, write="upsert", mode="full_refresh")
    bench.write(plain(50, first=26, word="new"), stream, write="upsert", mode="full_refresh")
    bench.must_hold(stream, pa.concat_tables([plain(25), plain(50, first=26, word="new")]))


@CASES.destination("write.upsert_order", "Of several rows with one key, upsert keeps the last.", ("write.upsert",))
def keeps_the_last(bench: DestinationBench) -> None:
    bench.needs_mode("upsert")
    bench.needs_reading()
    for batch_rows in (10, 1_000):  # across batches, and inside one
        stream = bench.stream_name("order")
        rows = pa.concat_tables([plain(20, word=word) for word in ("first", "second", "last")])
        bench.write(rows, stream, write="upsert", mode="full_refresh", generator={"batch_rows": batch_rows})
        if text := difference(plain(20, word="last"), bench.read_back(stream)):
            raise CaseFailed(f"{batch_rows} rows in a batch: {text}")


@CASES.destination("write.retry", "After an error and a retry, each row is there once.")
def does_not_double(bench: DestinationBench) -> None:
    bench.needs_reading()
    stream = bench.stream_name("retry")
    taken = bench.place("taken")
    how = {
        "fail": {"row": 60, "category": "rate_limit", "unless": str(bench.place("failed"))},
        "gate": {"row": 60, "file": str(taken)},
        "batch_rows": 10,
        "checkpoint_batches": 4,
    }
    sync = bench.prepare(plain(100), stream, generator=how)
    record = bench.record(sync)
    # The source fails once the destination has taken two batches behind its last mark.
    record.on_call = lambda: taken.touch() if record.delivered >= 6 else None
    wrote = Wrote(sync, succeeded(bench.run(sync)))
    check(any(each["event"] == "retry" for each in wrote.sync.events), "the run was not retried")
    _once(bench, stream, plain(100))


@CASES.destination("write.retry_full_refresh", "After a retry of a full refresh, each row is there once.")
def does_not_double_a_refresh(bench: DestinationBench) -> None:
    bench.needs_reading()
    stream = bench.stream_name("again")
    fail = {"row": 60, "category": "transient_db", "unless": str(bench.place("failed"))}
    bench.write(plain(100), stream, mode="full_refresh", generator={"fail": fail, "batch_rows": 10})
    _once(bench, stream, plain(100))


def _once(bench: DestinationBench, stream: str, rows: pa.Table) -> None:
    found = bench.read_back(stream)
    if not bench.is_exact():
        found = found.group_by(ID).aggregate([]) if found.num_columns else found
    if text := lost_and_doubled(rows, found):
        raise CaseFailed(text)
