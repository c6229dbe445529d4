"""The newest rows of a table, in memory or outside: the end of its time column, found by few bounded reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gauss.api.stored import rows_shown
from gauss.contracts.cursor import Program, TimeRange
from gauss.contracts.expression import Select
from gauss.scan.program.parse import parse
from gauss.stream.control.run import Running

MOST_ROWS = 5_000
"""Rows of the window that is read; a condition is looked for among them."""
SEARCHED = 2_500
"""At least so many of the newest rows are searched."""
FIRST_MS = 1_000
WIDER = 8
LATEST_MS = 1 << 45
"""Rows may have times in the future."""

Row = dict[str, Any]


def newest_rows(running: Running, topic: str, count: int, where: str | None) -> list[Row]:
    """The last rows by time, and of those at the same time the last that were written."""
    column = str(running.command("table", topic=topic)["time"])
    begin = newest_window(running, topic, SEARCHED if where else count) if column else 0
    stages = (Select(parse(where).root),) if where else ()
    # More rows than are read share the first millisecond if the window is too large: those behind it are read first.
    views = [TimeRange(begin + 1, None), TimeRange(begin, begin + 1)] if begin else [TimeRange(begin, None)]
    found: list[Row] = []
    for view in views:
        rows = _rows(running, topic, Program(view, stages=stages, text=where or ""))
        if column:  # a table by key gives its rows by key
            rows.sort(key=lambda row: _sort_key(row["data"].get(column)))
        found = [*rows, *found]
        if len(found) >= count:
            break
    return found[-count:]


def _rows(running: Running, topic: str, program: Program) -> list[Row]:
    tail = running.client().tail(topic, program, limit=MOST_ROWS, full=True)
    try:
        return [row for batch in tail for row in rows_shown(batch)]
    finally:
        tail.cancel()


def _sort_key(value: Any) -> tuple[bool, Any]:
    """Nulls first."""
    return value is not None, 0 if value is None else value


def newest_window(running: Running, topic: str, least: int) -> int:
    """A time from which on a table has at least so many rows, and few more."""
    return window_start(lambda start: _count(running, topic, start), least, int(time.time() * 1000))


def window_start(count_from: Callable[[int], int], least: int, now_ms: int) -> int:
    """A time from which on there are at least `least` rows, and no more than MOST_ROWS unless they share a
    millisecond. `count_from` returns the number of rows since a time, or any larger number than MOST_ROWS."""
    if count_from(0) <= MOST_ROWS:
        return 0
    many, few = 0, LATEST_MS
    start, age = max(now_ms - FIRST_MS, 1), FIRST_MS
    while few - many > 1:
        found = count_from(start)
        if least <= found <= MOST_ROWS:
            return start
        if found > MOST_ROWS:
            many = start
        else:
            few = start
        start, age = (many + few) // 2, age * WIDER
        if many == 0 and now_ms > age:
            start = now_ms - age
        elif few == LATEST_MS and many < now_ms + FIRST_MS:
            start = now_ms + FIRST_MS
    return many


def _count(running: Running, topic: str, start: int) -> int:
    tail = running.client().tail(topic, Program(TimeRange(start, None)), limit=MOST_ROWS + 1, full=True)
    try:
        return sum(map(len, tail))
    finally:
        tail.cancel()
