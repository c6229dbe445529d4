"""Transforms inside the engine: epochs through the same ledger, dead letters, retries, the newest record."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Changed, DeadLetter
from gauss.model.errors import ConfigError
from gauss.stream.engine.dead import DEAD_TOPIC
from gauss.stream.engine.pump import Pump
from helpers.delivery import INLET, Delivery


class Upper:
    """Makes capitals; a record with `!` is a dead letter, one with `?` breaks it."""

    def apply(self, chunk: Chunk, offset: int) -> Changed:
        data = chunk.data()
        if pc.any(pc.match_substring(data, "?")).as_py():
            raise ConfigError("can't do this")
        bad = pc.match_substring(data, "!")
        dead = [
            DeadLetter("loud", "", "transform", "", data[index].as_py(), offset=offset + index)
            for index, marked in enumerate(bad.to_pylist())
            if marked
        ]
        kept = pc.utf8_upper(data.filter(pc.invert(bad)).cast(pa.string())).cast(pa.binary())
        return Changed(Chunk(kept, len(kept), chunk.ts_ms), dead)


@contextmanager
def pumping(delivery: Delivery) -> Iterator[Pump]:
    pump = Pump(
        delivery.running,
        "out",
        Upper(),
        topics=delivery.topics,
        ledger=delivery.ledger,
        publisher=delivery.publisher,
        sources=delivery.sources,
    )
    pump.start()
    try:
        yield pump
    finally:
        pump.stop()
        pump.join(60)
        assert not pump.is_alive()


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def test_records_pass_in_order_with_their_times_and_the_ledger_knows_the_ends(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    with pumping(delivery):
        delivery.feed(b"a", b"b", ts_ms=5)
        delivery.feed(b"c", ts_ms=7)
        assert eventually(lambda: len(delivery.data()) == 3)
    assert [(row["data"], row["ts_ms"]) for row in delivery.rows()] == [(b"A", 5), (b"B", 5), (b"C", 7)]
    row = delivery.ledger.row("p")
    assert row is not None and row.ends == delivery.ends(3)


def test_second_pump_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    with pumping(delivery):
        assert eventually(lambda: len(delivery.data()) == 2)
    delivery.feed(b"c")
    delivery.running.cancel.clear()
    with pumping(delivery):
        assert eventually(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"B", b"C"]


def test_dead_letter_names_processor_topic_and_offset(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"oh!", b"b")
    with pumping(delivery):
        assert eventually(lambda: len(delivery.data()) == 2)
    (letter,) = delivery.data(DEAD_TOPIC)
    assert b'"processor":"p","topic":"in"' in letter and b'"offset":1' in letter


def test_five_failures_at_one_place_fail_it_and_skip_sends_the_place_to_the_dead_letters(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"why?")
    with pumping(delivery) as pump:
        assert eventually(lambda: pump.status.state == "failed")
        assert "can't do this" in pump.status.detail
        pump.retry(skip=True)
        delivery.feed(b"fine")
        assert eventually(lambda: delivery.data() == [b"FINE"] or len(delivery.data(DEAD_TOPIC)) == 2)
    assert b"skipped" in delivery.data(DEAD_TOPIC)[0]


def test_retry_inlet_is_read_beside_the_topic(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    with pumping(delivery):
        delivery.feed(b"again", topic=INLET)
        delivery.feed(b"first")
        assert eventually(lambda: len(delivery.data()) == 2)
    assert sorted(delivery.data()) == [b"AGAIN", b"FIRST"]


def test_seek_moves_a_running_pump(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    with pumping(delivery):
        assert eventually(lambda: len(delivery.data()) == 2)
        delivery.publisher.seek("p", "in", 1)
        assert eventually(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"B", b"B"]


def test_latest_reader_gets_the_newest_record_and_never_an_older_one(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, read="latest")
    delivery.feed(*(b"r%03d" % number for number in range(100)))
    with pumping(delivery):
        assert eventually(lambda: delivery.data() == [b"R099"])
        delivery.feed(b"next")
        assert eventually(lambda: len(delivery.data()) == 2)
    assert delivery.data() == [b"R099", b"NEXT"]


def test_skip_leaves_out_only_the_records_that_it_fails_at_and_keeps_the_reason(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b?", b"c", b"d", b"e?")
    with pumping(delivery) as pump:
        assert eventually(lambda: pump.status.state == "failed")
        assert "gauss processors skip p" in pump.status.detail
        pump.retry(skip=True)
        assert eventually(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"C", b"D"]
    letters = [json.loads(data) for data in delivery.data(DEAD_TOPIC)]
    assert [(letter["reason"], letter["offset"]) for letter in letters] == [("skipped", 1), ("skipped", 4)]
    assert all("can't do this" in letter["detail"] for letter in letters)
