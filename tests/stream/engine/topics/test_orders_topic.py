"""When reads of a table are requested: once or at intervals, never before its rows are written, never twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.clients.engine.positions import At
from gauss.config.spec import SourceRef
from gauss.contracts.storage import Capacity, StorageContext, WriteFull
from gauss.plugins.storages.file.log import FileLog
from gauss.plugins.storages.file.spec import FileConfig
from gauss.stream.engine.topics.bounded_reads import SETTLE_MS
from gauss.stream.engine.topics.orders_topic import OrdersTopic
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.orders import Order
from helpers.logs import arrow, framing
from helpers.tables import open_table, record
from helpers.waiting import wait_until

NOW = 1_000_000


class Reads:
    """Orders in a real log, with a clock that the test moves."""

    def __init__(self, folder: Path, **asked: Any) -> None:
        self.now = NOW
        self.waiting: int | None = None
        context = StorageContext("_reads.p", folder, folder, lambda stored: stored or 1, lambda _: True, framing)
        log: Any = FileLog(FileConfig(), context)
        self.topic = OrdersTopic("_reads.p", log, Capacity(None, None, WriteFull.BLOCK))
        source = SourceRef.model_validate({"topic": "t", **asked})
        self.topic.watch(source, lambda: self.now / 1000, lambda: self.waiting)

    def after(self, ms: int) -> list[Order]:
        """The orders that are made after so much time."""
        self.now += ms
        before = self.topic.version()
        for _ in range(3):  # polled more often than one is due
            self.topic.maintain()
        found = self.topic.last_order()
        assert self.topic.version() - before in (0, 1)
        return [found[0]] if found is not None and self.topic.version() > before else []

    def is_done(self) -> bool:
        return self.topic.ordered.is_done(self.topic, At(self.topic.inc, self.topic.version()))


def ranges(orders: list[Order]) -> list[tuple[int | None, int | None]]:
    return [(order.from_ms, order.to_ms) for order in orders]


def test_a_snapshot_is_ordered_once_and_not_again_after_a_restart(tmp_path: Path) -> None:
    reads = Reads(tmp_path, read="snapshot")
    assert ranges(reads.after(0)) == [(None, None)]
    assert reads.after(1 << 30) == []
    assert reads.is_done() and reads.topic.ordered.outlook() == ""
    reads.topic.close()
    again = Reads(tmp_path, read="snapshot")
    assert again.after(5) == []
    again.topic.close()
    other = Reads(tmp_path, read="snapshot", every="1m")  # the config has changed
    assert len(other.after(0)) == 1


def test_a_snapshot_is_repeated_at_its_interval(tmp_path: Path) -> None:
    reads = Reads(tmp_path, read="snapshot", every="10s")
    assert len(reads.after(0)) == 1
    assert reads.after(9_999) == []
    assert reads.is_done() and "the next snapshot begins at" in reads.topic.ordered.outlook()
    assert len(reads.after(1)) == 1


def test_a_query_waits_until_the_rows_of_its_range_are_in_the_table(tmp_path: Path) -> None:
    reads = Reads(tmp_path, read="query", **{"from": 10})
    assert reads.after(0) == [] and not reads.is_done()  # a record may have its time and not be appended yet
    reads.waiting = NOW - 5
    assert reads.after(SETTLE_MS) == []
    reads.waiting = None
    assert ranges(reads.after(0)) == [(10, NOW)]
    assert reads.is_done()


def test_queries_at_an_interval_leave_no_gap_and_overlap_nowhere(tmp_path: Path) -> None:
    reads = Reads(tmp_path, read="query", every="10s")
    first = ranges(reads.after(0))
    assert first == [(0, NOW - SETTLE_MS)]
    reads.waiting = NOW + 4_000  # a record of that time is not in the table yet
    assert ranges(reads.after(10_000)) == [(NOW - SETTLE_MS, NOW + 4_000)]
    reads.waiting = None
    assert ranges(reads.after(10_000)) == [(NOW + 4_000, NOW + 20_000 - SETTLE_MS)]


def test_queries_with_an_end_stop_there(tmp_path: Path) -> None:
    reads = Reads(tmp_path, read="query", every="10s", to=NOW + 5_000)
    assert ranges(reads.after(0)) == [(0, NOW - SETTLE_MS)]
    assert ranges(reads.after(10_000)) == [(NOW - SETTLE_MS, NOW + 5_000)]
    assert reads.after(1 << 30) == []
    assert reads.topic.ordered.outlook() == ""


def test_reading_begins_anew_with_the_newest_snapshot_or_with_all_queries(tmp_path: Path) -> None:
    snapshots = Reads(tmp_path / "s", read="snapshot", every="10s")
    assert snapshots.topic.ordered.begin().from_ms == 0
    snapshots.topic.ordered.bounds = None
    for _ in range(3):
        snapshots.after(10_000)
    assert snapshots.topic.ordered.begin().from_ms == NOW + 30_000
    queries = Reads(tmp_path / "q", read="query", every="10s")
    for _ in range(3):
        queries.after(10_000)
    assert queries.topic.ordered.begin().from_ms == NOW + 10_000
    queries.topic.close()
    changed = Reads(tmp_path / "q", read="query", every="20s", **{"from": 1 << 40})
    assert changed.topic.ordered.begin().from_ms == NOW + 30_001  # what was requested before is not read again


class Subscribed(Reads):
    """Orders that follow a real table; `published` is the progress of its processor."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, read="subscribe")
        self.table = TableTopic("t", open_table(), Capacity(None, None, WriteFull.DROP))
        self.published: At | None = None
        self.topic.follow(self.table, lambda: self.published)

    def orders(self) -> list[int]:
        """The table version of each order."""
        return [order.seen.off for order, _ in self.topic.all_orders() if order.seen is not None]

    def publish_all(self) -> None:
        self.published = At(self.topic.inc, self.topic.version())

    def close(self) -> None:
        self.topic.close()
        self.table.close()


def test_a_subscription_orders_a_snapshot_per_change_with_one_in_flight(tmp_path: Path) -> None:
    reads = Subscribed(tmp_path)
    assert reads.after(0) == []  # an empty table has no snapshot yet
    reads.table.append(arrow(record("a", 1)))
    wait_until(lambda: reads.orders() == [1])
    for number in range(5):  # the first is not published yet: the next changes become one snapshot
        reads.table.append(arrow(record("a", number)))
    assert reads.after(1 << 20) == []
    reads.publish_all()
    wait_until(lambda: reads.orders() == [1, 6])
    assert not reads.is_done()
    reads.publish_all()
    assert reads.after(1 << 20) == []  # no change since
    reads.close()


def test_a_subscription_begins_with_the_table_as_it_is_after_a_restart(tmp_path: Path) -> None:
    reads = Subscribed(tmp_path)
    reads.table.append(arrow(record("a", 1)))
    wait_until(lambda: reads.orders() == [1])
    reads.close()
    again = Subscribed(tmp_path)
    again.table.append(arrow(record("b", 1), record("c", 1)))
    wait_until(lambda: again.orders()[-1:] == [2])
    assert again.topic.ordered.begin().from_ms == NOW
    again.close()
