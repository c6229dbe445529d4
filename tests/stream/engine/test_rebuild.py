"""`rebuild` and `drop-state` of a processor whose state was lost or whose output must be written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.engine.positions import At
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ConfigError, Fenced
from gauss.stream.engine.journal.entries import ClaimMade, Rebuilt
from gauss.stream.engine.runtime import Engine
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.bounded import Clock, feed_times, made
from helpers.delivery import Delivery
from helpers.engine_process import prepare
from helpers.logs import lines, open_log
from helpers.pumps import pumping
from helpers.waiting import wait_until


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    """A stateful processor that has published two epochs and lost its checkpoint."""
    made = Delivery(tmp_path)
    made.claim(stateful=True)
    made.feed(b"a", b"b", b"c", b"d")
    made.publish(0, 2, made.stage(b"A", b"B"))
    made.publish(1, 4, made.stage(b"C", b"D"))
    with pytest.raises(ConfigError, match='the state of processor "p" is gone'):
        made.claim("fresh", stateful=True)
    return made


def test_dropped_state_goes_on_at_the_ends_and_only_once(delivery: Delivery) -> None:
    delivery.running.drop_state = True
    assert delivery.claim("fresh", stateful=True).start == delivery.ends(4)
    with pytest.raises(ConfigError, match="is gone"):
        delivery.claim("another", stateful=True)


def test_rebuild_begins_at_the_oldest_record_with_an_empty_target(delivery: Delivery) -> None:
    delivery.publisher.rebuild("p", ["out"])
    assert delivery.data() == []
    claimed = delivery.claim("fresh", stateful=True)
    assert (claimed.start["in"].off, claimed.epoch, claimed.known) == (0, -1, False)
    delivery.publish(0, 4, delivery.stage(b"ABCD"), checkpoint="fresh")
    assert [(row["offset"], row["data"]) for row in delivery.rows()] == [(5, b"ABCD")]


def test_rebuild_fences_the_query_that_runs(delivery: Delivery) -> None:
    delivery.publisher.rebuild("p", ["out"])
    with pytest.raises(Fenced):
        delivery.publish(2, 4, delivery.stage(b"late"))


def test_reader_of_an_emptied_target_learns_what_it_missed(delivery: Delivery) -> None:
    target = delivery.topics["out"]
    reader = target.reader("later", "earliest", keep=False)
    target.empty()
    delivery.feed(b"new", topic="out")
    assert reader.position == 0
    assert (target.floor(), target.version()) == (5, 6)


def test_emptying_an_empty_topic_changes_nothing(tmp_path: Path) -> None:
    topic = Delivery(tmp_path).topics["out"]
    topic.empty()
    assert (topic.floor(), topic.version()) == (0, 0)


def test_file_topic_is_empty_also_after_a_restart(tmp_path: Path) -> None:
    log = open_log("file", tmp_path, {"framing": "newline"})
    topic = LogTopic("t", log, Capacity(None, None, WriteFull.BLOCK))
    topic.append(lines(b"a", b"b", ts_ms=1))
    topic.empty()
    assert (topic.floor(), topic.version()) == (3, 3)
    topic.append(lines(b"c", ts_ms=2))
    topic.close()
    again = open_log("file", tmp_path, {"framing": "newline"})
    assert (again.floor, again.end) == (3, 4)
    again.close()


def test_transform_in_the_engine_makes_its_target_anew(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    with pumping(delivery):
        wait_until(lambda: delivery.data() == [b"A", b"B"])
        delivery.publisher.rebuild("p", ["out"])
        wait_until(lambda: delivery.data() == [b"A", b"B"])
        assert delivery.topics["out"].floor() == 3
        delivery.feed(b"c")
        wait_until(lambda: delivery.data() == [b"A", b"B", b"C"])


def test_bounded_read_is_rebuilt_within_its_range(tmp_path: Path) -> None:
    delivery = made(tmp_path, Clock(10_000), **{"from": 200, "to": 400})
    feed_times(delivery, 100, 200, 300, 400)
    with pumping(delivery):
        wait_until(lambda: delivery.data() == [b"200", b"300"])
        delivery.publisher.rebuild("p", ["out"])
        wait_until(lambda: delivery.topics["out"].floor() == 3 and delivery.data() == [b"200", b"300"])


def test_engine_that_died_behind_the_entry_of_a_rebuild_empties_its_target_at_the_next_start(tmp_path: Path) -> None:
    config = {
        "topics": [{"name": name, "storage": "file"} for name in ("in", "out")],
        "processors": [
            {
                "name": "copy",
                "plugin": "passthrough",
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": "out"},
            }
        ],
    }
    prepare(tmp_path, config)
    engine = Engine(tmp_path)
    engine.open()
    try:
        for topic in ("in", "out"):
            engine.topic(topic).append(lines(b"a", b"b", ts_ms=1))
        out, source = engine.topic("out"), engine.topic("in")
        claim = ClaimMade("copy", "rebuild-1", 1, {"in": At(source.inc, 0)})
        engine.ledger.commit(Rebuilt([claim], {"out": At(out.inc, out.empty_end())}), sync=True)
    finally:
        engine.close()  # as if it had died here, with the records still in the topic
    again = Engine(tmp_path)
    again.open()
    try:
        assert (again.topic("out").floor(), again.topic("out").version()) == (3, 3)
        assert again.ledger.row("copy") is not None
        again.topic("out").append(lines(b"c", ts_ms=2))
    finally:
        again.close()
    third = Engine(tmp_path)
    third.open()
    try:
        assert (third.topic("out").floor(), third.topic("out").version()) == (3, 4)  # newer records stay
    finally:
        third.close()
