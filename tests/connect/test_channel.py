from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.channel import Channel, Rejection, Weight
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark
from helpers.connectors import rows

ROWS = rows(1)


def batch(number: int) -> Batch:
    return Batch(number, ROWS)


def mark(number: int) -> Mark:
    return Mark(number, None, final=False)


@given(st.lists(st.booleans(), max_size=50), st.integers(1, 5))
def test_everything_arrives_once_and_in_order(kinds: list[bool], capacity: int) -> None:
    channel, got = Channel(capacity, Weight(2, 1 << 20)), []
    items = [batch(number) if is_batch else mark(number) for number, is_batch in enumerate(kinds)]

    def take() -> None:
        while (item := channel.get()) is not None:
            got.append(item)

    thread = threading.Thread(target=take)
    thread.start()
    for item in items:
        channel.put(item)
    channel.end()
    thread.join(10)
    assert got == items


def waits(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A call that has to wait, and what becomes of it."""
    done: list[object] = []

    def run() -> None:
        try:
            done.append(call())
        except ConnectorError as error:
            done.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread, done


def test_batches_wait_for_room_and_marks_do_not() -> None:
    channel = Channel(1)
    channel.put(batch(1))
    channel.put(mark(1))
    thread, done = waits(lambda: channel.put(batch(2)))
    assert channel.get() == batch(1)
    thread.join(10)
    assert done == [None]
    assert [channel.get(), channel.get()] == [mark(1), batch(2)]


def test_a_drained_channel_takes_nothing_more_and_delivers_what_it_has() -> None:
    channel = Channel(1)
    channel.put(batch(1))
    thread, done = waits(lambda: channel.put(batch(2)))
    channel.drain()
    thread.join(10)
    assert done == ["CANCELLED"]
    channel.end()
    assert [channel.get(), channel.get()] == [batch(1), None]


def test_a_broken_channel_ends_both_sides_with_the_first_error() -> None:
    full, empty = Channel(1), Channel(1)
    full.put(batch(1))
    for channel, call in ((full, lambda: full.put(batch(2))), (empty, empty.get)):
        thread, done = waits(call)
        channel.break_off(ConnectorError.internal("FIRST", "gone"))
        channel.break_off(ConnectorError.internal("SECOND", "gone too"))
        thread.join(10)
        assert done == ["FIRST"]
    with pytest.raises(ConnectorError, match="gone"):
        full.get()


@pytest.mark.parametrize("most", [Weight(4, 1 << 20), Weight(100, 4 * 8)], ids=["rows", "bytes"])
def test_a_batch_waits_while_those_before_it_hold_too_much(most: Weight) -> None:
    channel, two = Channel(8, most), rows(1, 2)
    first, second, third = Batch(1, two), Rejection(two, ConnectorError.data("BAD", "bad")), Batch(2, two)
    channel.put(first)
    channel.put(second)
    channel.put(mark(1))
    thread, done = waits(lambda: channel.put(third))
    assert channel.get() == first
    thread.join(10)
    assert done == [None] and [channel.get(), channel.get(), channel.get()] == [second, mark(1), third]


def test_a_batch_that_is_larger_than_all_may_hold_passes_alone() -> None:
    channel, large = Channel(8, Weight(1, 1)), Batch(1, rows(1, 2, 3))
    channel.put(large)
    thread, _ = waits(lambda: channel.put(Batch(2, rows(1))))
    assert channel.get() == large
    thread.join(10)
    assert channel.get() == Batch(2, rows(1))
