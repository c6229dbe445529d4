"""The `topic` destination on a real engine."""

from __future__ import annotations

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gauss.clients.engine.task_messages import Feed
from gauss.connect.attempt import Attempt
from gauss.contracts.connector.errors import CommitState, ConnectorError
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import DataErrorPolicy, Replace
from gauss.model.errors import Fenced, Rejected
from helpers.waiting import wait_until
from plugins.connectors.file.syncing import INCREMENTAL, Moved, Wanted, emits, move, opened

if TYPE_CHECKING:
    from .conftest import Patient, TopicEngine


def people(*numbers: int, **more: Any) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(numbers, pa.int64()), "name": [f"p{n}" for n in numbers], **more})


def lines(*texts: str | None) -> pa.RecordBatch:
    return pa.record_batch({"data": pa.array(texts, pa.string())})


def write(engine: TopicEngine, stream: str, *batches: pa.RecordBatch, **more: Any) -> Moved:
    wanted = Wanted(stream=stream, mode=INCREMENTAL, schema=batches[0].schema, **more)
    return move(emits(*batches), engine.destination(), wanted)


def test_rows_are_encoded_in_the_format_of_the_topic(engine: TopicEngine) -> None:
    moved = write(engine, "people", people(1, 2, more=['{"a": [1]}', "5"]), people(3)).ok()
    found = [json.loads(each) for each in engine.records("people")]
    assert found[:2] == [{"id": 1, "name": "p1", "more": {"a": [1]}}, {"id": 2, "name": "p2", "more": 5}]
    assert (found[2]["id"], found[2].get("more")) == (3, None)
    assert moved.outcome.write is not None and moved.outcome.write.records_written == 3
    assert [each.id for each in moved.seen.safe][-1] == 2


def test_topic_without_a_format_accepts_text_and_bytes(engine: TopicEngine) -> None:
    write(engine, "raw.lines", lines("a", "", "ü")).ok()
    more = pa.record_batch({"data": pa.array([b"\x00\xff"], pa.binary())})
    write(engine, "raw.lines", more, generation=2).ok()
    assert engine.records("raw.lines") == [b"a", b"", "ü".encode(), b"\x00\xff"]


def test_records_of_one_topic_are_copied_to_another(engine: TopicEngine) -> None:
    engine.add("raw.lines", b"a", b"b")
    with opened(engine.source(), Wanted(), CheckpointKind.SOURCE) as source:
        [found] = [each for each in source.discover().streams if each.name == "raw.lines"]
    wanted = Wanted(stream="raw.lines", mode=INCREMENTAL)
    context = wanted.context()
    move(engine.source(), engine.destination(tables={"raw.lines": "quick"}), wanted).ok()
    assert engine.records("quick") == [b"a", b"b"] and len(found.schema) == 2
    with opened(engine.destination(), wanted) as destination:
        assert destination.describe(context).names == ["data"]


def test_columns_that_the_format_lacks_are_refused_with_their_names(engine: TopicEngine) -> None:
    with pytest.raises(ConnectorError, match='format "person" of topic "people" has no field age') as raised:
        write(engine, "people", people(1, age=[3]))
    assert raised.value.code == "NO_FIELD" and "new_column" in raised.value.hint
    with pytest.raises(ConnectorError, match='expected one column "data", found id, name'):
        write(engine, "quick", people(1))


def test_format_without_fields_accepts_any_columns(engine: TopicEngine) -> None:
    write(engine, "filtered", people(1, age=[3])).ok()
    assert [json.loads(each) for each in engine.records("filtered")] == [{"id": 1, "name": "p1", "age": 3}]


def test_row_that_cannot_be_encoded_is_rejected(engine: TopicEngine) -> None:
    moved = write(engine, "quick", lines("a", None, "b"), on_data_error=DataErrorPolicy.DLQ).ok()
    assert engine.records("quick") == [b"a", b"b"] and len(moved.seen.letters) == 1
    assert write(engine, "quick", lines(None)).error.code == "NULL"


@pytest.mark.parametrize(
    ("stream", "tables", "topic"),
    [
        ("public.quick", {}, "quick"),
        ("raw.lines", {}, "raw.lines"),
        ("lines", {"lines": "raw.lines"}, "raw.lines"),
        ('"a.b"."quick"', {}, "quick"),
    ],
)
def test_stream_is_written_to_the_topic_of_its_name(
    engine: TopicEngine, stream: str, tables: dict[str, str], topic: str
) -> None:
    move(emits(lines("x")), engine.destination(tables=tables), Wanted(stream=stream)).ok()
    assert engine.records(topic) == [b"x"]


def test_unknown_topic_and_another_write_mode_are_refused(engine: TopicEngine) -> None:
    with pytest.raises(ConnectorError, match='no topic "quik"') as raised:
        write(engine, "quik", lines("x"))
    assert "quick" in raised.value.hint
    with pytest.raises(ConnectorError, match="only appended to"):
        write(engine, "quick", lines("x"), write=Replace())


def test_records_of_a_writer_killed_while_sending_are_not_committed(engine: TopicEngine) -> None:
    """The engine can't tell the end of its connection from the end of its records."""
    feed = Feed("p/s", 1, 1, "raw.lines", {"id": 1}, records=2)
    for sent in ([], [lines("a")]):
        with pytest.raises(Rejected, match=f"expected 2 records, received {len(sent)}"):
            engine.client._call(lambda sent=sent: engine.client._put(feed, sent))  # type: ignore[misc]
    assert engine.client.command("feed.position", {"writer": "p/s"})["position"] is None
    assert engine.client.feed(feed, [lines("a", "b")]) == 2
    assert engine.records("raw.lines") == [b"a", b"b"]


def test_commit_sent_repeatedly_is_applied_once(engine: TopicEngine) -> None:
    feed = Feed("p/s", 1, 1, "raw.lines", {"id": 1})
    for _ in range(2):
        engine.client.feed(feed, [lines("a", "b")])
    engine.restart()  # the journal has it
    assert engine.client.feed(feed, [lines("a", "b")]) == 0
    assert engine.client.feed(Feed("p/s", 1, 2, "raw.lines", {"id": 2}), []) == 0
    assert engine.records("raw.lines") == [b"a", b"b"]
    found = engine.client.command("feed.position", {"writer": "p/s"})
    assert found == {"fence": 1, "generation": 1, "number": 2, "position": {"id": 2}}


def test_run_that_was_replaced_is_fenced(engine: TopicEngine) -> None:
    write(engine, "quick", lines("a"), generation=7).ok()
    with pytest.raises(Fenced, match="generation 6 was replaced by 7"):
        engine.client.feed(Feed("p/quick", 6, 1, "quick", None), [lines("late")])
    engine.client.command("feed.claim", {"writer": "p/quick", "generation": 8})
    engine.restart()
    with pytest.raises(Fenced, match="replaced by 8"):
        engine.client.feed(Feed("p/quick", 7, 2, "quick", None), [lines("late")])


def test_commit_waiting_for_space_is_fenced_by_the_next_run(engine: TopicEngine) -> None:
    engine.add("narrow", *([b"{}"] * 10))
    state = functools.partial(engine.client.command, "topic", {"name": "narrow"})
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(engine.client.feed, Feed("p/narrow", 1, 1, "narrow", None), [lines("late")])
        wait_until(lambda: late.done() or state()["blocked_s"] > 0, what="a commit that waits")
        engine.client.command("feed.claim", {"writer": "p/narrow", "generation": 2})
        engine.client.command("readers.seek", {"topic": "narrow", "reader": "reads-narrow", "to": "end"})
        with pytest.raises(Fenced, match="replaced by 2"):
            late.result(30)
    assert state()["end"] == 10


def test_write_waiting_for_space_can_be_interrupted(engine: TopicEngine) -> None:
    engine.add("narrow", *([b"{}"] * 10))
    state = functools.partial(engine.client.command, "topic", {"name": "narrow"})
    wanted = Wanted(stream="narrow", mode=INCREMENTAL)
    attempt = Attempt(wanted.run()[0], emits(lines("x")), engine.destination())
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(attempt)
        wait_until(lambda: outcome.done() or state()["blocked_s"] > 0, what="a write that waits")
        attempt.break_off(ConnectorError.internal("CANCELLED", "interrupted"))
        error = outcome.result(30).error
    assert error is not None and error.code == "CANCELLED"


def test_stopped_engine_is_a_transient_error_with_an_unknown_commit(engine: TopicEngine, patience: Patient) -> None:
    patience(0.2)
    wanted = Wanted(stream="quick", mode=INCREMENTAL)
    with opened(engine.destination(tables={"quick": "quick"}), wanted) as destination:
        engine.kill()
        with pytest.raises(ConnectorError) as raised:
            destination.prepare(wanted.context(), [], 1)
    assert raised.value.code == "ENGINE_GONE" and raised.value.retryable
    assert raised.value.commit_state is not CommitState.AFTER_COMMIT_UNKNOWN
