"""Processors with bounded reads (`query`), and a clock that the test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.config.spec import SourceRef
from gauss.stream.engine.topics.bounded_reads import Bounded
from helpers.delivery import Delivery


class Clock:
    """A clock in ms that only the test advances."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now / 1000


def bounded(clock: Clock, **asked: Any) -> Bounded:
    return Bounded(SourceRef.model_validate({"topic": "in", "read": "query", **asked}), clock)


def made(folder: Path, clock: Clock, **asked: Any) -> Delivery:
    size = asked.pop("size", None)
    return Delivery(folder, read="query", bounded=bounded(clock, **asked), size=size)


def feed_times(delivery: Delivery, *times: int) -> None:
    for ts_ms in times:
        delivery.feed(b"%d" % ts_ms, ts_ms=ts_ms)
