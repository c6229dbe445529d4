"""How far a Spark reader may read, what holds records back, and what is counted as lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import At
from gauss.model.errors import StorageError
from helpers.delivery import INLET, Delivery


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    made = Delivery(tmp_path)
    made.claim()
    return made


def test_nothing_new_gives_start_back_unchanged(delivery: Delivery) -> None:
    reply = delivery.latest(delivery.ends(0))
    assert (reply.end, reply.rows, reply.lag) == (delivery.ends(0), 0, 0)


def test_batch_is_bounded_by_rows(delivery: Delivery) -> None:
    delivery.feed(*[b"x"] * 100)
    reply = delivery.latest(delivery.ends(0), rows=30)
    assert (reply.end, reply.rows, reply.lag) == (delivery.ends(30), 30, 100)


def test_batch_is_bounded_by_bytes_and_holds_at_least_one_record(delivery: Delivery) -> None:
    for _ in range(10):
        delivery.feed(b"x" * 5000)
    assert 1 <= delivery.latest(delivery.ends(0), size=21_000).rows <= 5
    assert delivery.latest(delivery.ends(0), size=1).rows >= 1


def test_waits_for_the_first_record_up_to_wait_ms(delivery: Delivery) -> None:
    timer = threading.Timer(0.1, lambda: delivery.feed(b"x"))
    timer.start()
    assert delivery.latest(delivery.ends(0), wait_ms=60_000).rows == 1


def test_retry_topic_comes_before_the_topic(delivery: Delivery) -> None:
    delivery.feed(*[b"x"] * 100)
    delivery.feed(b"again", topic=INLET)
    reply = delivery.latest(delivery.ends(0), rows=10)
    assert (reply.end[INLET].off, reply.end["in"].off) == (1, 9)


def test_ring_smaller_than_the_input_passes_everything_freed_by_start(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=100)
    delivery.claim()
    feeder = threading.Thread(target=lambda: delivery.feed(*[b"x"] * 1000))
    feeder.start()
    start, epoch = delivery.ends(0), 0
    deadline = time.monotonic() + 60
    while start["in"].off < 1000 and time.monotonic() < deadline:
        reply = delivery.latest(start, rows=50, wait_ms=50)
        if reply.end != start:
            delivery.publish(epoch, reply.end["in"].off)
            start, epoch = reply.end, epoch + 1
    feeder.join(60)
    assert start["in"].off == 1000


def test_epoch_whose_spark_log_was_lost_is_offered_again_with_the_same_ends(delivery: Delivery) -> None:
    delivery.feed(*[b"x"] * 100)
    delivery.publish(0, 10, delivery.stage(b"a"))
    delivery.publish(1, 20, delivery.stage(b"b"))
    again = delivery.latest(delivery.ends(10))
    assert again.end == delivery.ends(20)
    assert delivery.publish(1, 20).repeated
    assert delivery.latest(delivery.ends(20)).end == delivery.ends(100)


def test_dead_incarnation_ends_in_the_current_one_and_is_counted_once(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(*[b"x"] * 50)
    delivery.claim()
    delivery.publish(0, 20)
    old = delivery.ends(20)
    delivery.ledger.close()
    again = Delivery(tmp_path)
    again.claim()
    start = {**old, INLET: again.ends(0)[INLET]}
    assert again.latest(start).end == start
    again.feed(b"new", b"newer")
    reply = again.latest(start)
    assert reply.end["in"] == At(again.topics["in"].inc, 2)
    assert reply.rows == 2
    assert again.running.readers["in"].lost_on_restart == 30
    again.sources.lost_range(Read("in", old["in"].inc, 20, 50, "p", again.generation), 20, 50)
    assert again.running.readers["in"].lost_on_restart == 30


def test_on_restart_fail_is_an_error_that_names_the_topic(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, on_restart="fail")
    delivery.feed(b"x")
    delivery.claim()
    old = delivery.ends(0)
    delivery.ledger.close()
    again = Delivery(tmp_path, on_restart="fail")
    again.claim()
    with pytest.raises(StorageError, match='memory topic "in"'):
        again.latest(old)


def test_range_behind_the_floor_is_counted_once_unless_published(delivery: Delivery) -> None:
    delivery.feed(*[b"x"] * 30)
    read = Read("in", delivery.topics["in"].inc, 0, 10, "p", delivery.generation)
    delivery.sources.lost_range(read, 0, 5)
    delivery.sources.lost_range(read, 0, 5)
    assert delivery.running.readers["in"].missed_records == 5
    delivery.publish(0, 20)
    delivery.sources.lost_range(read, 5, 8)
    assert delivery.running.readers["in"].missed_records == 5


def test_latest_reader_ends_at_the_newest_record_and_holds_nothing_back(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, size=5, read="latest")
    delivery.claim()
    delivery.feed(*[b"x"] * 50)
    reply = delivery.latest(delivery.ends(0), rows=10)
    assert (reply.end, reply.rows) == (delivery.ends(50), 1)
    assert delivery.topics["in"].readers.slowest() is None


def test_durable_topic_keeps_the_last_two_epochs_until_it_is_read_to_its_end(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, durable=frozenset({"in"}))
    delivery.feed(*[b"x"] * 50)
    delivery.claim()
    for epoch, end in enumerate((10, 20, 30, 40)):
        delivery.publish(epoch, end)
    delivery.latest(delivery.ends(40))
    assert delivery.running.readers["in"].position == 20
    delivery.publish(4, 50)
    delivery.latest(delivery.ends(50))
    assert delivery.running.readers["in"].position == 50


def test_records_that_died_with_the_engine_are_lost_and_not_taken_in(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path)
    delivery.feed(*[b"x"] * 50)
    delivery.claim()
    delivery.publish(0, 20)
    planned = delivery.ends(50)
    delivery.ledger.close()  # killed: the epoch up to 50 was planned, and is repeated
    again = Delivery(tmp_path)
    again.claim()
    again.sources.lost_range(Read("in", planned["in"].inc, 20, 50, "p", again.generation), 20, 50)
    again.publish(1, 50, ends={**planned, INLET: again.ends(0)[INLET]})
    assert (again.running.records, again.running.readers["in"].lost_on_restart) == (0, 30)
    again.feed(b"new", b"newer")
    again.publish(2, 2)
    assert again.running.records == 2
