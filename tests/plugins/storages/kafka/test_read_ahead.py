"""Segments of several partitions are read at once, without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from gauss.clients.kafka.reading import DEFAULT_BOUNDS, Bounds, Range
from gauss.clients.kafka.record_batches import SCHEMA
from gauss.model.errors import Collected, Unavailable
from gauss.plugins.storages.kafka.read_ahead import PARALLEL, ReadAhead

ENDS = dict.fromkeys(range(2 * PARALLEL), 5)


class Reader:
    """Answers when as many partitions as possible are asked for; partition 0 fails."""

    def __init__(self) -> None:
        self.together = threading.Barrier(PARALLEL)
        self.reads: list[int] = []

    def read(
        self,
        wanted: Range,
        bounds: Bounds = DEFAULT_BOUNDS,  # noqa: ARG002
        stop: threading.Event | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        self.reads.append(wanted.partition)
        self.together.wait(10)
        if wanted.partition == 0:
            raise Unavailable("no leader")
        rows = [
            {"offset": offset, "ts_ms": 0, "data": b"x", "headers": []} for offset in range(wanted.start, wanted.end)
        ]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def test_partitions_are_prepared_at_once_and_errors_are_those_of_the_read() -> None:
    reader = Reader()
    reads = ReadAhead(reader, "t", "", threading.Event())
    reads.prepare([(partition, 0) for partition in ENDS], ENDS)
    assert sorted(reader.reads) == list(ENDS)
    assert [reads.at(partition, 0, 5, len(ENDS)).count for partition in list(ENDS)[1:]] == [5] * (len(ENDS) - 1)
    assert sorted(reader.reads) == list(ENDS), "they are kept"
    reader.together = threading.Barrier(1)
    with pytest.raises(Unavailable, match="no leader"):
        reads.at(0, 0, 5, len(ENDS))
    reads.close()


class Endless:
    """Has no records until it is stopped."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)

    def read(
        self,
        wanted: Range,  # noqa: ARG002
        bounds: Bounds = DEFAULT_BOUNDS,  # noqa: ARG002
        stop: threading.Event | None = None,
    ) -> Iterator[pa.RecordBatch]:
        self.begun.release()
        assert stop is not None and stop.wait(10)
        yield from ()


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_read_of_a_topic_that_is_closed_says_so(moment: str) -> None:
    reader, ended, errors = Endless(), threading.Event(), list[Exception]()
    reads = ReadAhead(reader, "t", "", ended)

    def read() -> None:
        try:
            reads.prepare([(partition, 0) for partition in ENDS], ENDS)
            reads.at(0, 0, 5, len(ENDS))
        except Exception as error:
            errors.append(error)

    def close() -> None:
        ended.set()
        reads.close()

    reading = threading.Thread(target=read)
    if moment == "before":
        close()
    reading.start()
    if moment == "meanwhile":
        for _ in range(PARALLEL):
            assert reader.begun.acquire(timeout=10)
        close()
    reading.join(10)
    assert not reading.is_alive() and [type(error) for error in errors] == [Collected]
