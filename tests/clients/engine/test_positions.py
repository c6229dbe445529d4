"""Positions: one per partition, encoded as before partitions existed where the partition is 0."""

from __future__ import annotations

import msgspec
import pytest

from gauss.clients.engine.positions import (
    At,
    Ends,
    place_key,
    places,
    topic_of,
    versions,
)
from gauss.clients.engine.task_messages import StageDead, StageTime
from gauss.contracts.letter import Letter

OLD_SPARK_OFFSET = b'{"in":{"inc":1700000000000,"off":42,"seen":7,"beat":9},"table:side":{"inc":5,"off":6}}'
OLD_STAGED_LETTERS = (
    b'{"type":"StageDead","processor":"p","generation":1,"topic":"in","inc":5,"start":0,"stop":10,'
    b'"letters":[{"offset":3}]}'
)


def test_spark_offset_without_partitions_is_read_as_partition_0_and_written_as_it_was() -> None:
    ends = msgspec.json.decode(OLD_SPARK_OFFSET, type=Ends)
    assert {at.partition for at in ends.values()} == {0}
    assert (places(ends), versions(ends)) == ({"in": At(1700000000000, 42, 7, 9)}, {"side": At(5, 6)})
    assert msgspec.json.encode(ends) == OLD_SPARK_OFFSET
    assert msgspec.to_builtins(ends) == msgspec.json.decode(OLD_SPARK_OFFSET)


def test_staged_letters_without_a_partition_are_read_and_written_without_one() -> None:
    staged = msgspec.json.decode(OLD_STAGED_LETTERS, type=StageDead)
    assert (staged.partition, staged.letters) == (0, [Letter(offset=3)])
    written = msgspec.json.encode(staged)
    assert b"partition" not in written
    assert msgspec.json.decode(written, type=StageDead) == staged


def test_position_of_another_partition_is_encoded_with_it() -> None:
    ends = {place_key("t", partition): At(1, 10 + partition, partition=partition) for partition in (0, 3)}
    text = msgspec.json.encode(ends)
    assert text == b'{"t":{"inc":1,"off":10},"t/3":{"inc":1,"off":13,"partition":3}}'
    assert msgspec.json.decode(text, type=Ends) == ends


@pytest.mark.parametrize(("topic", "partition", "key"), [("a.b-c_d", 0, "a.b-c_d"), ("a", 1, "a/1"), ("a", 12, "a/12")])
def test_place_key_names_topic_and_partition(topic: str, partition: int, key: str) -> None:
    assert place_key(topic, partition) == key
    assert topic_of(key) == topic


def test_time_of_a_range_carries_its_partition() -> None:
    told = StageTime("p", 1, "t", 1, 0, 5, 77, partition=2)
    assert msgspec.json.decode(msgspec.json.encode(told), type=StageTime) == told
