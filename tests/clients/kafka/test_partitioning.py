"""The partition of a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from gauss.clients.kafka.outgoing import Partitioning, outgoing
from gauss.model.errors import ProtocolError

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""murmur2 of Kafka's own tests (`UtilsTest.testMurmur2`)."""


def batch(keys: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([b"x"] * len(keys)), pa.array(keys, pa.binary())], ["data", "key"])


@pytest.mark.parametrize("partitions", [1, 7, 1000])
def test_a_key_goes_where_the_java_producer_sends_it(partitions: int) -> None:
    found = outgoing(batch(list(JAVA)), Partitioning(partitions)).partitions
    assert found.tolist() == [(value & 0x7FFFFFFF) % partitions for value in JAVA.values()]


def test_keys_of_a_sliced_batch_are_those_of_its_records() -> None:
    keys = list(JAVA)
    whole = outgoing(batch(keys), Partitioning(1000)).partitions
    assert outgoing(batch(keys).slice(2, 3), Partitioning(1000)).partitions.tolist() == whole[2:5].tolist()


def test_records_go_round_robin_across_batches() -> None:
    partitioning = Partitioning(3, by_key=False)
    found = [outgoing(batch([b"k", None, b"k", None]), partitioning).partitions.tolist() for _ in range(2)]
    assert found == [[0, 1, 2, 0], [1, 2, 0, 1]]


def test_records_without_a_key_go_to_the_next_partition_a_thousand_at_a_time() -> None:
    partitioning = Partitioning(3)
    found = [outgoing(batch([None] * count), partitioning).partitions for count in (4, 1, 2_500, 5)]
    assert [np.unique(each, return_counts=True)[1].tolist() for each in found] == [[4], [1], [1_024, 452, 1_024], [5]]
    assert [each[0] for each in found] == [0, 1, 2, 2]


def test_a_partition_is_needed_for_each_record() -> None:
    assert outgoing(batch([b"k"] * 2), np.array([5, 6])).partitions.tolist() == [5, 6]
    with pytest.raises(ProtocolError, match="a partition for each of 2 records, found 1"):
        outgoing(batch([b"k"] * 2), np.array([5]))
