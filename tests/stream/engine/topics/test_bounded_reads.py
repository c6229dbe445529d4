"""Bounded reads: [from, to) of ts_ms in ordinary epochs, once or at intervals, and never twice."""

from __future__ import annotations

from pathlib import Path

from gauss.clients.engine.positions import Ends
from gauss.stream.engine.delivery.epochs import held
from gauss.stream.engine.topics.bounded_reads import SETTLE_MS
from helpers.bounded import Clock, bounded, feed_times, made
from helpers.delivery import INLET, Delivery
from helpers.pumps import pumping
from helpers.waiting import wait_until


def read_all(delivery: Delivery, start: Ends) -> tuple[list[int], Ends]:
    """The ranges [start, stop) of one query after the other, until nothing is new."""
    found: list[int] = []
    while (end := delivery.latest(start, rows=2).end) != start:
        found += range(start["in"].off, end["in"].off)
        row = delivery.ledger.row("p")
        assert row is not None
        delivery.publish(row.epoch + 1, end["in"].off, delivery.stage(b"x"))
        start = end
    return found, start


def is_done(delivery: Delivery) -> bool:
    topic = delivery.topics["in"]
    at = held(delivery.ledger.row("p"), "in")
    assert at is not None and delivery.running.bounded is not None
    return delivery.running.bounded.is_done(topic, at)


def test_records_from_the_first_time_up_to_the_second_are_read_in_epochs(tmp_path: Path) -> None:
    delivery = made(tmp_path, Clock(10_000), **{"from": 200, "to": 500})
    feed_times(delivery, 100, 200, 300, 400, 499, 500, 600)
    claimed = delivery.claim()
    assert claimed.start["in"].off == 1
    found, start = read_all(delivery, claimed.start)
    assert found == [1, 2, 3, 4]
    assert is_done(delivery)
    assert delivery.latest(start).lag == 0


def test_without_times_all_that_is_there_at_the_start_is_read(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock)
    feed_times(delivery, 100, 999)
    claimed = delivery.claim()
    clock.now = 5_000
    feed_times(delivery, 1_000, 2_000)
    assert read_all(delivery, claimed.start)[0] == [0, 1]


def test_times_before_now_are_fixed_when_it_begins(tmp_path: Path) -> None:
    clock = Clock(10_000)
    delivery = made(tmp_path, clock, **{"from": "-5s", "to": "-1s"})
    feed_times(delivery, 4_999, 5_000, 8_999, 9_000)
    claimed = delivery.claim()
    clock.now = 60_000
    assert read_all(delivery, claimed.start)[0] == [1, 2]


def test_end_in_the_future_is_waited_for(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock, to=2_000)
    feed_times(delivery, 500)
    _, start = read_all(delivery, delivery.claim().start)
    assert not is_done(delivery)
    feed_times(delivery, 1_999)
    clock.now = 2_000 + SETTLE_MS - 1
    found, start = read_all(delivery, start)
    assert found == [1]
    assert not is_done(delivery), "a record that was stamped in time may still come"
    feed_times(delivery, 2_000)
    assert is_done(delivery), "times never go back, so nothing can come any more"
    assert read_all(delivery, start)[0] == []


def test_quiet_topic_is_done_a_little_after_the_end(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock)
    delivery.claim()
    assert not is_done(delivery)
    clock.now += SETTLE_MS
    assert is_done(delivery)


def test_every_goes_on_where_the_last_query_ended(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock, **{"from": 100, "every": "10s"})
    feed_times(delivery, 50, 100, 900)
    found, start = read_all(delivery, delivery.claim().start)
    assert found == [1, 2]
    feed_times(delivery, 1_000, 6_000)
    clock.now = 10_999
    assert read_all(delivery, start)[0] == [], "the interval is not over"
    assert is_done(delivery)
    clock.now = 11_000
    found, start = read_all(delivery, start)
    assert found == [3, 4]
    assert delivery.running.bounded is not None
    assert "the next query begins at 00:00:21 UTC" in delivery.running.bounded.outlook()


def test_every_ends_for_good_at_a_fixed_time(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock, to=2_000, every="500ms")
    feed_times(delivery, 900)
    _, start = read_all(delivery, delivery.claim().start)
    feed_times(delivery, 1_900, 2_100)
    clock.now = 60_000
    found, _ = read_all(delivery, start)
    assert found == [1]
    assert delivery.running.bounded is not None and delivery.running.bounded.outlook() == ""


def test_restart_does_not_repeat_what_was_done_and_keeps_the_times(tmp_path: Path) -> None:
    clock = Clock(10_000)
    first = made(tmp_path, clock, **{"from": "-5s"})
    feed_times(first, 6_000, 7_000)
    claimed = first.claim()
    end = first.latest(claimed.start, rows=1).end
    first.publish(0, end["in"].off, first.stage(b"x"))
    first.ledger.close()
    clock.now = 90_000
    again = bounded(clock, **{"from": "-5s"})
    first.publisher.running.clear()
    first.running.bounded = again
    first.running.readers.clear()
    first.publisher.add(first.running)
    assert again.bounds is not None and (again.bounds.from_ms, again.bounds.to_ms) == (5_000, 10_000)
    assert first.latest(end).end["in"].off == 2


def test_other_times_in_the_config_begin_anew_at_the_new_from(tmp_path: Path) -> None:
    clock = Clock(10_000)
    delivery = made(tmp_path, clock, **{"from": 0, "to": 300})
    feed_times(delivery, 100, 200, 300, 400)
    claimed = delivery.claim()
    read_all(delivery, claimed.start)
    delivery.running.bounded = bounded(clock, **{"from": 200, "to": 1_000})
    again = delivery.claim()
    assert (again.known, again.epoch, again.start["in"].off) == (False, -1, 1)
    assert read_all(delivery, again.start)[0] == [1, 2, 3]


def test_lost_checkpoint_goes_on_at_the_ledgers_ends(tmp_path: Path) -> None:
    delivery = made(tmp_path, Clock(10_000), to=1_000)
    feed_times(delivery, 100, 200, 300)
    claimed = delivery.claim()
    delivery.publish(0, delivery.latest(claimed.start, rows=2).end["in"].off, delivery.stage(b"x"))
    again = delivery.claim("another")
    assert (again.known, again.start["in"].off) == (False, 2)


def test_full_ring_is_held_only_while_a_query_runs(tmp_path: Path) -> None:
    clock = Clock(10_000)
    delivery = made(tmp_path, clock, size=2, to=300)
    feed_times(delivery, 100, 200)
    claimed = delivery.claim()
    topic = delivery.topics["in"]
    end = delivery.latest(claimed.start).end
    delivery.publish(0, end["in"].off, delivery.stage(b"x"))
    assert topic.floor() == 0
    delivery.latest(end)
    feed_times(delivery, 300, 400, 500, 600)
    assert (topic.floor(), topic.version()) == (4, 6)


def test_retry_topic_is_read_though_the_range_is_done(tmp_path: Path) -> None:
    delivery = made(tmp_path, Clock(10_000), to=1_000)
    feed_times(delivery, 100)
    _, start = read_all(delivery, delivery.claim().start)
    delivery.feed(b"again", topic=INLET)
    assert delivery.latest(start).end[INLET].off == 1


def test_transform_in_the_engine_reads_the_range_and_goes_on_at_each_interval(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock, **{"from": 200, "every": "5s"})
    feed_times(delivery, 100, 200, 900)
    with pumping(delivery):
        wait_until(lambda: delivery.data() == [b"200", b"900"])
        feed_times(delivery, 1_500)
        wait_until(lambda: is_done(delivery))
        assert delivery.data() == [b"200", b"900"]
        clock.now = 6_000
        wait_until(lambda: delivery.data() == [b"200", b"900", b"1500"])
    with pumping(delivery):
        clock.now = 20_000
        feed_times(delivery, 7_000)
        wait_until(lambda: len(delivery.data()) == 4)
    assert delivery.data()[-1] == b"7000"


def test_part_of_the_range_that_is_gone_is_counted(tmp_path: Path) -> None:
    clock = Clock(1_000)
    delivery = made(tmp_path, clock, size=3, every="5s")
    feed_times(delivery, 100)
    with pumping(delivery):
        wait_until(lambda: delivery.data() == [b"100"])
        clock.now += SETTLE_MS
        wait_until(lambda: not delivery.running.readers["in"].connected)
        for ts_ms in range(1_001, 1_011):
            feed_times(delivery, ts_ms)
        clock.now = 6_000
        wait_until(lambda: delivery.data()[-1] == b"1010")
    assert delivery.data() == [b"1008", b"1009", b"1010"]
    assert delivery.running.readers["in"].missed_records == 7
