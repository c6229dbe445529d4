from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.channel import Channel, Item, Rejection, Weight
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Batch, Mark
from helpers.connectors import rows

ROWS = rows(1)


def batch(number: int) -> Batch:
    return Batch(number, ROWS)


def mark(number: int) -> Mark:
    return Mark(number, None, final=False)


@given(st.lists(st.booleans(), max_size=50), st.integers(1, 5))
def test_batches_and_marks_are_delivered_once_and_in_order(kinds: list[bool], capacity: int) -> None:
    channel, got = Channel(capacity, Weight(2, 1 << 20)), list[Item]()
    items: list[Item] = [batch(number) if is_batch else mark(number) for number, is_batch in enumerate(kinds)]

    def take() -> None:
        while (item := channel.get()) is not None:
            got.append(item)

    thread = threading.Thread(target=take)
    thread.start()
    for item in items:
        channel.put(item)
    channel.end()
    thread.join(10)
    assert merged(got) == merged(items)


def merged(items: list[Item]) -> list[Item]:
    """The items without marks right before another one."""
    return [
        each for each, after in zip(items, [*items, None][1:], strict=True) if not (is_mark(each) and is_mark(after))
    ]


def is_mark(item: Item | None) -> bool:
    return isinstance(item, Mark)


def test_marks_of_a_source_without_rows_do_not_pile_up_before_a_slow_destination() -> None:
    channel = Channel(1)
    channel.put(batch(1))
    for number in range(1_000):
        channel.put(Mark(1, Int64Cursor(number), final=False))
    channel.put(end := Mark(1, None, final=True))
    channel.end()
    got = list(iter(channel.get, None))
    assert got == [batch(1), Mark(1, Int64Cursor(999), final=False), end]


def waits(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Starts a call that has to wait; returns its thread and its results."""
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


def test_batch_waits_for_space_and_a_mark_does_not() -> None:
    channel = Channel(1)
    channel.put(batch(1))
    channel.put(mark(1))
    thread, done = waits(lambda: channel.put(batch(2)))
    assert channel.get() == batch(1)
    thread.join(10)
    assert done == [None]
    assert [channel.get(), channel.get()] == [mark(1), batch(2)]


def test_drained_channel_accepts_no_more_and_delivers_its_content() -> None:
    channel = Channel(1)
    channel.put(batch(1))
    thread, done = waits(lambda: channel.put(batch(2)))
    channel.drain()
    thread.join(10)
    assert done == ["CANCELLED"]
    channel.end()
    assert [channel.get(), channel.get()] == [batch(1), None]


def test_failed_channel_ends_both_sides_with_the_first_error() -> None:
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
def test_batch_waits_while_the_rows_in_flight_exceed_the_limit(most: Weight) -> None:
    channel, two = Channel(8, most), rows(1, 2)
    first, second, third = Batch(1, two), Rejection(two, ConnectorError.data("BAD", "bad")), Batch(2, two)
    channel.put(first)
    channel.put(second)
    channel.put(mark(1))
    thread, done = waits(lambda: channel.put(third))
    assert channel.get() == first
    thread.join(10)
    assert done == [None] and [channel.get(), channel.get(), channel.get()] == [second, mark(1), third]


def test_batch_above_the_limit_passes_alone() -> None:
    channel, large = Channel(8, Weight(1, 1)), Batch(1, rows(1, 2, 3))
    channel.put(large)
    thread, _ = waits(lambda: channel.put(Batch(2, rows(1))))
    assert channel.get() == large
    thread.join(10)
    assert channel.get() == Batch(2, rows(1))
