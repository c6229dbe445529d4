"""Rows that can't be written: 1 % bad rows under each policy."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, Role, check
from gauss.connect.conformance.compare import difference
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import described, succeeded
from gauss.contracts.connector.errors import ErrorCategory

ROWS = 1_000
BAD = range(50, ROWS, 100)
"""Places of the bad rows: 1 %."""


def _numbers(values: list[object], kind: pa.DataType) -> pa.Table:
    return plain(len(values)).append_column("n", pa.array(values, kind))


def _prepared(bench: DestinationBench, word: str) -> tuple[str, pa.Table, pa.Table]:
    """A stream whose table has numbers, rows with texts of which 1 % are no numbers, and what is to be there."""
    bench.needs_managed()
    bench.needs_reading()
    stream = bench.stream_name(word)
    bench.write(_numbers([0], pa.int64()), stream)
    sent = _numbers(["no number" if row in BAD else str(row) for row in range(ROWS)], pa.string())
    good = pa.array([row not in BAD for row in range(ROWS)])
    return stream, sent, _numbers(list(range(ROWS)), pa.int64()).filter(good)


def _add(policy: str, letters: int, expected: str) -> None:
    def run(bench: DestinationBench) -> None:
        stream, rows, wanted = _prepared(bench, policy)
        wrote = bench.try_write(rows, stream, policies={"on_data_error": policy}, generator={"batch_rows": 100})
        succeeded(wrote.result)
        found = wrote.result.streams[0].letters
        check(found == letters, f"{found} dead letters for {len(BAD)} bad rows")
        if letters:
            kept = [each["row"]["id"] for each in wrote.sync.letters]
            check(kept == [place + 1 for place in BAD], f"dead letters of other rows: id {kept}")
        text = difference(wanted, bench.read_back(stream))
        check(not text, text)

    CASES.add(Role.DESTINATION, f"letters.{policy}", expected, run, ("write.next_run",))


_add("dlq", len(BAD), "With dlq, exactly the bad rows become dead letters, and all others are written.")
_add("skip", 0, "With skip, exactly the bad rows are missing.")


@CASES.destination("letters.fail", "With fail, a bad row ends the stream with a data error.", ("write.next_run",))
def fails_at_a_bad_row(bench: DestinationBench) -> None:
    stream, rows, _ = _prepared(bench, "fail")
    error = bench.try_write(rows, stream, generator={"batch_rows": 100}).result.error
    if error is None:
        raise CaseFailed("the run succeeded")
    check(error.category is ErrorCategory.DATA, described(error))


@CASES.destination("letters.no_key", "With dlq, a row without its key becomes a dead letter.", ("write.upsert",))
def rejects_rows_without_a_key(bench: DestinationBench) -> None:
    bench.needs_mode("upsert")
    bench.needs_reading()
    stream, rows = bench.stream_name("keys"), plain(40)
    ids = [None if id == 20 else id for id in rows.column("id").to_pylist()]
    sent = rows.set_column(0, "id", pa.array(ids, pa.int64()))
    wrote = bench.try_write(sent, stream, write="upsert", mode="full_refresh", policies={"on_data_error": "dlq"})
    succeeded(wrote.result)
    check(wrote.result.streams[0].letters == 1, f"{wrote.result.streams[0].letters} dead letters")
    text = difference(rows.filter(pa.array([id is not None for id in ids])), bench.read_back(stream))
    check(not text, text)
