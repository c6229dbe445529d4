"""Records that pass a task unchanged: the task names them, and the engine copies their bytes from the topic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.engine.task_messages import Passed, Stage
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Framing
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ProtocolError
from gauss.plugins.framings.newline.framing import NewlineFraming
from gauss.plugins.framings.newline.spec import NewlineConfig
from gauss.stream.engine.delivery.passed_records import passed_chunks
from gauss.stream.engine.delivery.stages import StagedRecords
from helpers.delivery import Delivery

LINES: Framing = NewlineFraming(NewlineConfig(delimiter="\n"))


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    made = Delivery(tmp_path)
    made.claim()
    return made


def lines(delivery: Delivery, *records: bytes, ts_ms: int | np.ndarray = 1000) -> None:
    payload = b"".join(record + b"\n" for record in records)
    delivery.topics["in"].append(Chunk(payload, len(records), ts_ms, LINES))


def name(delivery: Delivery, start: int, stop: int, *offsets: int, inc: int = 0) -> str:
    """Stages records of the source by name: a whole range, or some of it."""
    stage = f"{start} {stop} {offsets}"
    passed = Passed("in", inc or delivery.topics["in"].inc, start, stop)
    head = Stage(stage, "p", delivery.generation, "out", passed=passed, whole=not offsets)
    batches = [pa.record_batch({"offset": pa.array(offsets, pa.int64())})] if offsets else []
    delivery.stages.put(head, batches)
    return stage


def test_a_whole_range_is_published_with_its_times_and_shares_its_bytes(delivery: Delivery) -> None:
    lines(delivery, b"a", b"b", ts_ms=7)
    lines(delivery, b"c", ts_ms=9)
    delivery.publish(0, 3, name(delivery, 0, 3))
    assert [(row["ts_ms"], row["data"]) for row in delivery.rows()] == [(7, b"a"), (7, b"b"), (9, b"c")]
    head = Stage("s", "p", delivery.generation, "out", passed=Passed("in", delivery.topics["in"].inc, 0, 3), whole=True)
    (chunk,) = passed_chunks(delivery.topics["in"], StagedRecords(head))[:1]
    assert chunk.framing is LINES
    assert delivery.stages.used == 0


def test_a_small_part_of_a_chunk_does_not_hold_the_rest_of_it(delivery: Delivery) -> None:
    lines(delivery, *(b"x" * 100 for _ in range(100)))
    head = Stage("s", "p", delivery.generation, "out", passed=Passed("in", delivery.topics["in"].inc, 3, 5), whole=True)
    (chunk,) = passed_chunks(delivery.topics["in"], StagedRecords(head))
    assert (chunk.count, len(chunk.payload)) == (2, 202)
    assert len(memoryview(getattr(chunk.payload, "obj", chunk.payload))) == 202


def test_an_epoch_published_again_looks_nothing_up(delivery: Delivery) -> None:
    lines(delivery, b"a", b"b")
    stage = name(delivery, 0, 2)
    delivery.publish(0, 2, stage)
    assert delivery.publish(0, 2, stage).repeated
    assert delivery.data() == [b"a", b"b"]


@pytest.mark.parametrize("how", ["trimmed", "other incarnation", "not there yet"])
def test_records_that_are_gone_refuse_the_epoch(delivery: Delivery, how: str) -> None:
    lines(delivery, b"a", b"b")
    lines(delivery, b"c")
    topic = delivery.topics["in"]
    inc, stop = topic.inc + (how == "other incarnation"), 4 if how == "not there yet" else 3
    if how == "trimmed":
        topic.empty(2)
    with pytest.raises(ProtocolError, match="no longer exist"):
        delivery.publish(0, 3, name(delivery, 0, stop, inc=inc))
    assert delivery.data() == []


def test_only_a_topic_that_keeps_what_was_not_passed_stays(delivery: Delivery) -> None:
    delivery.claim("", job=delivery.grants.new_job())
    assert delivery.sources.stay(delivery.running)
    topic = delivery.topics["in"]
    topic.capacity = Capacity(topic.capacity.records, topic.capacity.bytes, WriteFull.OVERWRITE)
    assert not delivery.sources.stay(delivery.running)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.lists(st.binary(max_size=5), min_size=1, max_size=6), st.booleans()), min_size=1, max_size=5),
    st.data(),
)
def test_any_rows_of_any_chunks_are_those_records(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[list[bytes], bool]], data: st.DataObject
) -> None:
    delivery = Delivery(tmp_path_factory.mktemp("passing"))
    delivery.claim()
    records, at = [], 0
    for values, framed in chunks:
        given = [value.replace(b"\n", b"") for value in values]
        times = np.arange(at, at + len(given)) if data.draw(st.booleans()) else at
        if framed:
            lines(delivery, *given, ts_ms=times)
        else:
            delivery.topics["in"].append(Chunk(pa.array(given, pa.binary()), len(given), times))
        each = times.tolist() if isinstance(times, np.ndarray) else [times] * len(given)
        records += list(zip(each, given, strict=True))
        at += len(given)
    start = data.draw(st.integers(0, at - 1))
    stop = data.draw(st.integers(start + 1, at))
    offsets = sorted(data.draw(st.sets(st.integers(start, stop - 1))))
    delivery.publish(0, at, name(delivery, start, stop, *offsets))
    wanted = [records[offset] for offset in offsets] if offsets else records[start:stop]
    assert [(row["ts_ms"], row["data"]) for row in delivery.rows()] == wanted
