"""The newest rows of an external table: the end of its time column, found by few bounded reads."""

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
FIRST_MS = 1_000
WIDER = 8
LATEST_MS = 1 << 45
"""Rows may have times in the future."""

Row = dict[str, Any]


def newest_rows(running: Running, topic: str, count: int, where: str | None) -> list[Row]:
    """The last rows by time, and of those at the same time the last that were written."""
    column = str(running.command("table", topic=topic)["time"])
    begin = 0
    if column:
        begin = window_start(lambda start: _count(running, topic, start), count, int(time.time() * 1000))
    stages = (Select(parse(where).root),) if where else ()
    program = Program(TimeRange(begin, None), stages=stages, text=where or "")
    tail = running.client().tail(topic, program, limit=MOST_ROWS, full=True)
    try:
        rows = [row for batch in tail for row in rows_shown(batch)]
    finally:
        tail.cancel()
    if column:  # a table by key gives its rows by key
        rows.sort(key=lambda row: (row["data"].get(column) is not None, row["data"].get(column) or 0))
    return rows[-count:]


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
