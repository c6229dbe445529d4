"""The hidden topic in which reads of a table are ordered, one record each, when they are due."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from gauss.config.spec import SourceRef
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Last, Program, Step
from gauss.contracts.storage import ReadMode
from gauss.model.units import moment_ms
from gauss.stream.engine.bounded import SETTLE_MS, Bounded
from gauss.stream.engine.entries import Bounds
from gauss.stream.engine.log_topic import LogTopic
from gauss.stream.engine.topic import Topic
from gauss.stream.orders import Order
from gauss.stream.protocol import At

FOREVER = 1 << 62


class OrdersTopic(LogTopic):
    """Orders the next read whenever it is due; what was ordered lasts as long as the data directory."""

    ordered: Ordered

    def watch(self, source: SourceRef, clock: Callable[[], float], settled: Callable[[], int | None]) -> None:
        """Begins to order. `settled` is the time before which every record is a row of the table; None: now."""
        self.ordered = Ordered(source, clock)
        self.ordered.orders, self.ordered.settled = self, settled

    def maintain(self, now_ms: int | None = None) -> None:
        super().maintain(now_ms)
        if (order := self.ordered.due(self.last_order())) is not None:
            data = pa.array([msgspec.json.encode(order)], pa.binary())
            self.append(Chunk(data, 1, int(self.ordered.clock() * 1000)))

    def last_order(self) -> tuple[Order, int] | None:
        """The newest order and when it was given."""
        return next(self._read(Program(Last())), None) if self.version() else None

    def all_orders(self) -> list[tuple[Order, int]]:
        """Every order that is kept, oldest first."""
        return list(self._read(Program()))

    def _read(self, program: Program) -> Iterator[tuple[Order, int]]:
        cursor = self.open(program)
        try:
            while cursor.next(Step()) is Code.UNSET:
                batch: Any = cursor.read()[1]
                for text, ts_ms in zip(batch.column(2).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    yield msgspec.json.decode(text, type=Order), ts_ms
        finally:
            cursor.close()


class Ordered(Bounded):
    """A bounded read of a table: done when every order is published and none is due."""

    orders: OrdersTopic
    settled: Callable[[], int | None]
    _aim: int | None = None

    @property
    def asked(self) -> str:
        return f"{self.source.read} of {self.source.topic} {super().asked}"

    def due(self, last: tuple[Order, int] | None) -> Order | None:
        """The read that is due now."""
        source, now = self.source, self._now()
        before, at = last if last is not None and last[0].asked == self.asked else (None, 0)
        if before is not None and (source.every is None or now < at + source.every or self._is_over(before)):
            return None
        if source.read == ReadMode.SNAPSHOT:
            return Order(source.topic, self.asked)
        start = 0 if source.from_ is None else moment_ms(source.from_, now)
        if before is not None and before.to_ms is not None:
            start = before.to_ms
        stop = self._reach(now)
        return None if stop is None else Order(source.topic, self.asked, start, max(stop, start))

    def _reach(self, now: int) -> int | None:
        """How far a query may go; None: not all of its rows are in the table yet."""
        settled = self.settled()
        settled = now - SETTLE_MS if settled is None else min(settled, now - SETTLE_MS)
        if self.source.every is not None:
            return min(self._stop(now), settled)
        if self._aim is None:
            self._aim = self._stop(now)
        return self._aim if settled >= self._aim else None

    def _is_over(self, before: Order) -> bool:
        """Whether the range has an end that is read."""
        return isinstance(self.source.to, int) and before.to_ms is not None and before.to_ms >= self.source.to

    def begin(self) -> Bounds:
        if self.bounds is None:
            self.bounds = Bounds(self.asked, self._first_ms(), FOREVER)
        return self.bounds

    def _first_ms(self) -> int:
        """The time of the order with which reading begins, be it anew: of snapshots the newest stands for all."""
        given = self.orders.all_orders()
        if not given or given[-1][0].asked != self.asked:
            return given[-1][1] + 1 if given else 0
        own = [at for order, at in given if order.asked == self.asked]
        return own[-1] if self.source.read == ReadMode.SNAPSHOT else own[0]

    def end(self, topic: Topic) -> int:
        return topic.version()

    def is_done(self, topic: Topic, at: At) -> bool:
        last = self.orders.last_order()
        return last is not None and not self.behind(topic, at) and self.due(last) is None

    def outlook(self) -> str:
        last = self.orders.last_order()
        if self.source.every is None or last is None or self._is_over(last[0]):
            return ""
        due = datetime.datetime.fromtimestamp((last[1] + self.source.every) / 1000, datetime.UTC)
        return f"the next {self.source.read} begins at {due:%H:%M:%S} UTC"
