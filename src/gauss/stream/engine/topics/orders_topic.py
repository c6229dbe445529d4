"""The internal topic of reads of a table: one record per read, appended when the read is due."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from gauss.clients.engine.positions import At
from gauss.config.spec import SourceRef
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Last, Program, Step
from gauss.contracts.storage import ReadMode
from gauss.model.units import moment_ms
from gauss.stream.engine.journal.entries import Bounds
from gauss.stream.engine.topics.bounded_reads import SETTLE_MS, Bounded
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.orders import Order

FOREVER = 1 << 62


PENDING_S = 0.05
"""How soon a changed table is checked again while its last snapshot is not published."""
IDLE_S = 1.0


class OrdersTopic(LogTopic):
    """Appends an order whenever a read is due; orders last as long as the data directory."""

    ordered: Ordered

    def watch(self, source: SourceRef, clock: Callable[[], float], settled: Callable[[], int | None]) -> None:
        """Starts to make orders. `settled`: the time before which all records are rows of the table; `None`: now."""
        self.ordered = Ordered(source, clock)
        self.ordered.orders, self.ordered.settled = self, settled
        self._ordering = threading.Lock()

    def follow(self, table: Topic, published: Callable[[], At | None]) -> None:
        """Orders a snapshot of a table whenever it has changed and the last snapshot is published."""
        self.ordered.table, self.ordered.published = table, published
        threading.Thread(target=self._follow, args=[table], name=f"follow {self.name}", daemon=True).start()

    def _follow(self, table: Topic) -> None:
        while not self._closed:
            seen = table.version()
            self._order()
            if self.ordered.pending():
                threading.Event().wait(PENDING_S)
            else:
                table.wait(seen, IDLE_S)

    def maintain(self, now_ms: int | None = None) -> None:
        super().maintain(now_ms)
        self._order()

    def _order(self) -> None:
        with self._ordering:
            if self._closed or (order := self.ordered.due(self.last_order())) is None:
                return
            data = pa.array([msgspec.json.encode(order)], pa.binary())
            self.append(Chunk(data, 1, int(self.ordered.clock() * 1000)))
            self.ordered.newest = order

    def last_order(self) -> tuple[Order, int] | None:
        """The newest order and its time."""
        return next(self._read(Program(Last())), None) if self.version() else None

    def all_orders(self) -> list[tuple[Order, int]]:
        """All retained orders, oldest first."""
        return list(self._read(Program()))

    def _read(self, program: Program) -> Iterator[tuple[Order, int]]:
        cursor = self.open(program)
        try:
            while cursor.next(Step()) is Code.OK:
                batch: Any = cursor.read()[1]
                for text, ts_ms in zip(batch.column(2).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    yield msgspec.json.decode(text, type=Order), ts_ms
        finally:
            cursor.close()


class Ordered(Bounded):
    """Reads of a table. A bounded one is done when all orders are published and none is due; a subscription never
    is."""

    orders: OrdersTopic
    settled: Callable[[], int | None]
    table: Topic
    published: Callable[[], At | None]
    """The end of the processor's published epochs."""
    newest: Order | None = None
    """The last order of this run."""
    _aim: int | None = None

    @property
    def asked(self) -> str:
        return f"{self.source.read} of {self.source.topic} {super().asked}"

    def due(self, last: tuple[Order, int] | None) -> Order | None:
        """The read that is due now."""
        source, now = self.source, self._now()
        before, at = last if last is not None and last[0].asked == self.asked else (None, 0)
        if source.read == ReadMode.SUBSCRIBE:
            return self._changed(self.newest or before)
        if before is not None and (source.every is None or now < at + source.every or self._is_over(before)):
            return None
        if source.read == ReadMode.SNAPSHOT:
            return Order(source.topic, self.asked)
        start = 0 if source.from_ is None else moment_ms(source.from_, now)
        if before is not None and before.to_ms is not None:
            start = before.to_ms
        stop = self._reach(now)
        return None if stop is None else Order(source.topic, self.asked, start, max(stop, start))

    def _changed(self, before: Order | None) -> Order | None:
        """A snapshot, if the table has changed since the last one, which must be published."""
        now = At(self.table.inc, self.table.version())
        if not now.off or (before is not None and before.seen == now) or self._in_flight():
            return None
        return Order(self.source.topic, self.asked, seen=now)

    def _in_flight(self) -> bool:
        if self.newest is None:
            return False  # an order of an earlier run, whose table was lost with its engine
        at = self.published()
        return at is None or at.inc != self.orders.inc or at.off < self.orders.version()

    def pending(self) -> bool:
        """Whether the table has changed since the last order."""
        return self.newest is not None and self.newest.seen != At(self.table.inc, self.table.version())

    def _reach(self, now: int) -> int | None:
        """The end of a query's range; `None` while rows of it are missing in the table."""
        settled = self.settled()
        settled = now - SETTLE_MS if settled is None else min(settled, now - SETTLE_MS)
        if self.source.every is not None:
            return min(self._stop(now), settled)
        if self._aim is None:
            self._aim = self._stop(now)
        return self._aim if settled >= self._aim else None

    def _is_over(self, before: Order) -> bool:
        """Whether the range has an end that has been read."""
        return isinstance(self.source.to, int) and before.to_ms is not None and before.to_ms >= self.source.to

    def begin(self) -> Bounds:
        if self.bounds is None:
            self.bounds = Bounds(self.asked, self._first_ms(), FOREVER)
        return self.bounds

    def _first_ms(self) -> int:
        """The time of the first order, also after a restart; for snapshots the newest represents all."""
        given = self.orders.all_orders()
        if not given or given[-1][0].asked != self.asked:
            return given[-1][1] + 1 if given else 0
        own = [at for order, at in given if order.asked == self.asked]
        return own[0] if self.source.read == ReadMode.QUERY else own[-1]

    def end(self, topic: Topic) -> int:
        return topic.version()

    def is_done(self, topic: Topic, at: At) -> bool:
        last = self.orders.last_order()
        if self.source.read == ReadMode.SUBSCRIBE:
            return False
        return last is not None and not self.behind(topic, at) and self.due(last) is None

    def outlook(self) -> str:
        last = self.orders.last_order()
        if self.source.every is None or last is None or self._is_over(last[0]):
            return ""
        due = datetime.datetime.fromtimestamp((last[1] + self.source.every) / 1000, datetime.UTC)
        return f"the next {self.source.read} begins at {due:%H:%M:%S} UTC"
