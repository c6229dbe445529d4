"""The `topic` source on a real engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gauss.connect.attempt import Side
from gauss.connect.host import StreamHost
from gauss.contracts.connector.cursor import CursorValue, Int64Cursor, JsonCursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.contracts.connector.progress import CheckpointKind, Counter
from gauss.contracts.connector.stream import DataErrorPolicy, StreamLimits
from plugins.connectors.file.syncing import INCREMENTAL, Kept, Moved, Wanted, move, opened

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Patient, TopicEngine

SOURCE = CheckpointKind.SOURCE


def at(inc: int, offset: int) -> CursorValue:
    return JsonCursor({"inc": inc, "offset": offset})


def read(engine: TopicEngine, stream: str, cursor: CursorValue | None = None, **more: Any) -> tuple[Moved, Kept]:
    """Reads the records after a cursor."""
    kept = Kept()
    wanted = Wanted(stream=stream, mode=INCREMENTAL, cursor=cursor, **more)
    return move(engine.source(), kept.side, wanted), kept


def missed(moved: Moved) -> list[int]:
    values = [each.value for each in moved.seen.metrics if each.name == "records_missed"]
    return [each.value for each in values if isinstance(each, Counter)]


def warnings(moved: Moved) -> list[str]:
    return [text for _, level, text in moved.seen.lines if level is LogLevel.WARN]


def test_log_topics_are_discovered_as_streams_with_the_fields_of_their_format(engine: TopicEngine) -> None:
    engine.add_people(1, 2)
    with opened(engine.source(), Wanted(), SOURCE) as source:
        found = {each.name: each for each in source.discover().streams}
    assert set(found) == {
        "people",
        "raw.lines",
        "quick",
        "filtered",
        "ring",
        "full",
        "narrow",
    }  # no table, and not `_dead`
    people = [(each.name, each.data_type) for each in found["people"].schema]
    assert people == [("id", "Int64"), ("name", "Utf8"), ("more", "Utf8")]
    assert [(each.name, each.data_type) for each in found["quick"].schema] == [("data", "Binary"), ("ts_ms", "Int64")]
    assert found["people"].estimated_rows == 2


def test_full_refresh_reads_existing_records_as_decoded_columns(engine: TopicEngine) -> None:
    engine.add_people(1, 2)
    kept = Kept()
    moved = move(engine.source(), kept.side, Wanted(stream="people")).ok()
    assert kept.rows() == [{"id": n, "name": f"p{n}", "more": f'{{"n": {n}}}'} for n in (1, 2)]
    assert moved.outcome.read is not None and moved.outcome.read.records_read == 2


def test_topic_without_a_format_is_read_as_bytes_and_times(engine: TopicEngine) -> None:
    engine.add("raw.lines", b"\x00\xff", b"")
    kept = Kept()
    move(engine.source(), kept.side, Wanted(stream="raw.lines")).ok()
    assert [row["data"] for row in kept.rows()] == [b"\x00\xff", b""]
    assert all(row["ts_ms"] > 1_700_000_000_000 for row in kept.rows())


def test_incremental_read_resumes_after_its_cursor(engine: TopicEngine) -> None:
    engine.add_people(1, 2)
    first, kept = read(engine, "people")
    assert first.ok().cursor == at(engine.inc("people"), 2) and len(kept.rows()) == 2
    nothing, kept = read(engine, "people", first.cursor)
    assert nothing.ok().cursor == first.cursor and kept.rows() == []
    engine.add_people(3)
    engine.restart()  # a file topic keeps its incarnation
    second, kept = read(engine, "people", first.cursor)
    assert [row["id"] for row in kept.rows()] == [3] and not missed(second.ok())


def test_batches_stay_within_the_limit(engine: TopicEngine) -> None:
    engine.add_people(*range(1000))
    moved, kept = read(engine, "people", limits=StreamLimits(max_batch_bytes=4000))
    assert [row["id"] for row in kept.rows()] == list(range(1000)) and len(kept.batches) > 5
    assert moved.ok().cursor == at(engine.inc("people"), 1000)


def test_bad_record_is_rejected_with_its_offset(engine: TopicEngine) -> None:
    engine.add_people(1)
    engine.add("people", b"no json", b'{"id":"x"}')
    engine.add_people(2)
    moved, kept = read(engine, "people", on_data_error=DataErrorPolicy.DLQ)
    assert [row["id"] for row in kept.rows()] == [1, 2] and moved.ok().cursor == at(engine.inc("people"), 4)
    (_, first, why), (_, second, _) = moved.seen.letters
    assert first.column("data").to_pylist() == [b"no json"] and why.details == {"topic": "people", "offset": 1}
    assert second.column("offset").to_pylist() == [2] and why.code == "BAD_RECORD"
    failed, _ = read(engine, "people")
    assert failed.error.category is ErrorCategory.DATA


def test_records_that_retention_has_removed_are_reported_and_counted(engine: TopicEngine) -> None:
    engine.add("ring", *(b"%d" % n for n in range(30)))
    moved, kept = read(engine, "ring", at(engine.inc("ring"), 5))
    assert [row["data"] for row in kept.rows()] == [b"%d" % n for n in range(20, 30)]
    assert missed(moved.ok()) == [15] and "records 5 to 19 were removed" in warnings(moved)[0]


def test_recreated_topic_is_reported_and_read_from_its_start(engine: TopicEngine) -> None:
    engine.add("quick", b"old", b"older")
    first, _ = read(engine, "quick")
    engine.restart()  # what is in memory dies with the engine
    engine.add("quick", b"a", b"b", b"c")
    moved, kept = read(engine, "quick", first.cursor)
    assert [row["data"] for row in kept.rows()] == [b"a", b"b", b"c"]
    assert moved.ok().cursor == at(engine.inc("quick"), 3)
    assert len(missed(moved)) == 1 and "made anew" in warnings(moved)[0]


@pytest.mark.parametrize("cursor", [JsonCursor({"offset": "x"}), JsonCursor(7), Int64Cursor(7)])
def test_cursor_of_another_kind_is_refused(engine: TopicEngine, cursor: CursorValue) -> None:
    moved, _ = read(engine, "people", cursor)
    assert moved.error.code == "BAD_CURSOR" and not moved.error.retryable


def test_cursor_after_the_end_is_refused(engine: TopicEngine) -> None:
    moved, _ = read(engine, "people", at(engine.inc("people"), 1))
    assert moved.error.code == "BAD_CURSOR" and "ends at 0" in moved.error.message


def interrupting(kept: Kept, work: Any) -> Side:
    """A destination that does something when it gets the first batch."""
    inner = kept.side

    def make(host: StreamHost) -> Any:
        deliver = host.next_batch
        done: list[bool] = []

        def next_batch() -> Any:
            found = deliver()
            if not done:
                done.append(True)
                work()
            return found

        host.next_batch = next_batch  # type: ignore[method-assign]
        return inner.make(host)

    return Side(make, inner.id, "1", JsonConfig({}))


NARROW = StreamLimits(max_batch_bytes=200_000, max_inflight_batches=1)


def fill(engine: TopicEngine, topic: str) -> list[bytes]:
    """More than the engine sends at once."""
    records = [b"%09d" % n + b"x" * 2_000 for n in range(20_000)]
    for start in range(0, len(records), 5_000):
        engine.add(topic, *records[start : start + 5_000])
    return records


def test_read_continues_after_an_engine_restart(engine: TopicEngine) -> None:
    records = fill(engine, "raw.lines")
    kept = Kept()
    wanted = Wanted(stream="raw.lines", mode=INCREMENTAL, limits=NARROW)
    move(engine.source(), interrupting(kept, engine.restart), wanted).ok()
    assert pa.concat_arrays([each.column("data") for each in kept.batches]).to_pylist() == records


def test_engine_that_stops_during_a_read_is_a_transient_error(engine: TopicEngine, patience: Patient) -> None:
    fill(engine, "raw.lines")
    patience(0.2)
    wanted = Wanted(stream="raw.lines", mode=INCREMENTAL, limits=NARROW)
    moved = move(engine.source(), interrupting(Kept(), engine.kill), wanted)
    assert moved.error.code == "ENGINE_GONE" and moved.error.retryable


def test_memory_topic_that_dies_during_a_read_is_a_transient_error(engine: TopicEngine) -> None:
    fill(engine, "quick")
    wanted = Wanted(stream="quick", mode=INCREMENTAL, limits=NARROW)
    moved = move(engine.source(), interrupting(Kept(), engine.restart), wanted)
    assert moved.error.code == "TOPIC_RESTARTED" and moved.error.retryable


def test_partitions_cover_every_record_once(engine: TopicEngine) -> None:
    engine.add_people(*range(10))
    with opened(engine.source(), Wanted(stream="people"), SOURCE) as source:
        parts = source.partitions(Wanted(stream="people").context(), 3)
        assert source.partitions(Wanted(stream="people", mode=INCREMENTAL).context(), 3) == [None]
    kept = Kept()
    for part in parts:
        move(engine.source(), kept.side, Wanted(stream="people", partition=part)).ok()
    assert len(parts) == 3 and [row["id"] for row in kept.rows()] == list(range(10))


def test_engine_reached_by_address_has_no_formats(engine: TopicEngine) -> None:
    engine.add_people(1)
    found = json.loads(engine.paths.flight_json.read_text())
    config = {"endpoint": found["endpoint"], "token": found["token"]}
    kept = Kept()
    move(Side(engine.source().make, "s", "1", JsonConfig(config)), kept.side, Wanted(stream="people")).ok()
    assert [json.loads(row["data"])["id"] for row in kept.rows()] == [1]
    wrong = Side(engine.source().make, "s", "1", JsonConfig({**config, "token": "other"}))
    failed = move(wrong, Kept().side, Wanted(stream="people"))
    assert "token" in failed.error.message and not failed.error.retryable
    assert found["token"] not in failed.error.message


def test_missing_run_and_unknown_topic_are_reported_by_name(engine: TopicEngine, tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="no pipeline runs") as raised:
        engine.source(data_dir=str(tmp_path / "nowhere")).open(StreamHost(Wanted().run()[0], SOURCE, "s"))
    assert raised.value.code == "NO_RUN" and "gauss run" in raised.value.hint
    moved, _ = read(engine, "peopel")
    assert moved.error.code == "NO_TOPIC" and "people" in moved.error.hint and not moved.error.retryable
