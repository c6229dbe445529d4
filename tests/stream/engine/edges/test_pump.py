"""Transforms inside the engine: epochs in the same ledger, dead letters, retries, and `latest` reads."""

from __future__ import annotations

import json
from pathlib import Path

from gauss.model.names import DEAD_TOPIC
from helpers.delivery import INLET, Delivery
from helpers.pumps import pumping
from helpers.waiting import wait_until


def test_records_pass_in_order_with_their_times_and_the_ledger_knows_the_ends(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    with pumping(delivery):
        delivery.feed(b"a", b"b", ts_ms=5)
        delivery.feed(b"c", ts_ms=7)
        wait_until(lambda: len(delivery.data()) == 3)
    assert [(row["data"], row["ts_ms"]) for row in delivery.rows()] == [(b"A", 5), (b"B", 5), (b"C", 7)]
    row = delivery.ledger.row("p")
    assert row is not None and row.ends == delivery.ends(3)


def test_second_pump_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    with pumping(delivery):
        wait_until(lambda: len(delivery.data()) == 2)
    delivery.feed(b"c")
    delivery.running.cancel.clear()
    with pumping(delivery):
        wait_until(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"B", b"C"]


def test_dead_letter_names_processor_topic_and_offset(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"oh!", b"b")
    with pumping(delivery):
        wait_until(lambda: len(delivery.data()) == 2)
    (letter,) = map(json.loads, delivery.data(DEAD_TOPIC))
    assert (letter["processor"], letter["topic"], letter["offset"]) == ("p", "in", 1)


def test_five_failures_at_one_place_fail_it_and_skip_sends_the_place_to_the_dead_letters(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"why?")
    with pumping(delivery) as pump:
        wait_until(lambda: pump.status.state == "failed")
        assert "can't do this" in pump.status.detail
        pump.retry(skip=True)
        delivery.feed(b"fine")
        wait_until(lambda: delivery.data() == [b"FINE"] or len(delivery.data(DEAD_TOPIC)) == 2)
    assert b"skipped" in delivery.data(DEAD_TOPIC)[0]


def test_retry_topic_is_read_beside_the_topic(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    with pumping(delivery):
        delivery.feed(b"again", topic=INLET)
        delivery.feed(b"first")
        wait_until(lambda: len(delivery.data()) == 2)
    assert sorted(delivery.data()) == [b"AGAIN", b"FIRST"]


def test_seek_moves_a_running_pump(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b")
    with pumping(delivery):
        wait_until(lambda: len(delivery.data()) == 2)
        delivery.publisher.seek("p", "in", 1)
        wait_until(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"B", b"B"]


def test_latest_reader_gets_the_newest_record_and_never_an_older_one(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, read="latest")
    delivery.feed(*(b"r%03d" % number for number in range(100)))
    with pumping(delivery):
        wait_until(lambda: delivery.data() == [b"R099"])
        delivery.feed(b"next")
        wait_until(lambda: len(delivery.data()) == 2)
    assert delivery.data() == [b"R099", b"NEXT"]


def test_skip_leaves_out_only_the_records_that_it_fails_at_and_keeps_the_reason(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(b"a", b"b?", b"c", b"d", b"e?")
    with pumping(delivery) as pump:
        wait_until(lambda: pump.status.state == "failed")
        assert "gauss processors skip p" in pump.status.detail
        pump.retry(skip=True)
        wait_until(lambda: len(delivery.data()) == 3)
    assert delivery.data() == [b"A", b"C", b"D"]
    letters = [json.loads(data) for data in delivery.data(DEAD_TOPIC)]
    assert [(letter["reason"], letter["offset"]) for letter in letters] == [("skipped", 1), ("skipped", 4)]
    assert all("can't do this" in letter["detail"] for letter in letters)
