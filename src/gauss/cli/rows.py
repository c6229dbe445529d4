"""Prints the rows of a scan as aligned columns, as they arrive."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from gauss.cli.output import visible

FIRST_ROWS = 100
"""Number of rows that determine the column widths."""
NARROWEST_LIVE = 8
WIDEST = 60
LOOK_SECONDS = 0.2

Row = dict[str, Any]


class RowPrinter:
    """Prints rows to a file or terminal. `count` may be read by another thread."""

    def __init__(self, out: TextIO, *, live: bool) -> None:
        self.count = 0
        self._out = out
        self._live = live
        self._width = os.get_terminal_size(out.fileno()).columns if out.isatty() else None
        self._flushed = 0.0
        self.before_first: Callable[[], None] = lambda: None
        """Called before anything is printed."""

    def print(self, rows: Iterable[Row]) -> int:
        """Prints all rows; returns their number."""
        waiting = iter(rows)
        first = list(self._first(waiting))
        if not first:
            return 0
        # Only the live part of a scan has deletions.
        columns = [name for name in first[0] if self._live or name != "deleted"]
        cells = [[shown(name, row[name]) for name in columns] for row in first]
        numeric = [all(type(row[name]) in (int, float) for row in first) and name != "ts_ms" for name in columns]
        least = NARROWEST_LIVE if self._live else 0
        widths = [
            min(max(least, len(name), *(len(row[index]) for row in cells)), WIDEST)
            for index, name in enumerate(columns)
        ]
        self.before_first()
        self._line([visible(name) for name in columns], widths, numeric)
        for line in cells:
            self._line(line, widths, numeric)
        self._look(force=True)
        for row in waiting:
            self.count += 1
            self._line([shown(name, row[name]) for name in columns], widths, numeric)
            self._look()
        self._out.flush()
        return self.count

    def _first(self, rows: Iterator[Row]) -> Iterator[Row]:
        most = 1 if self._live else FIRST_ROWS  # a live scan prints each row at once
        for row in rows:
            self.count += 1
            yield row
            if self.count >= most:
                return

    def _line(self, cells: list[str], widths: list[int], numeric: list[bool]) -> None:
        parts = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        text = "  ".join(parts).rstrip()
        if self._width is not None and len(text) > self._width:
            text = text[: self._width - 1] + "…"
        self._out.write(text + "\n")

    def _look(self, *, force: bool = False) -> None:
        """Flushes a live row at once, but not thousands per second one by one."""
        now = time.monotonic()
        if force or self._live or now - self._flushed > LOOK_SECONDS:
            self._out.flush()
            self._flushed = now


def shown(name: str, value: Any) -> str:
    """Formats a value as a cell."""
    if value is None:
        return "null"
    if name == "ts_ms" and isinstance(value, int):
        moment = datetime.datetime.fromtimestamp(value // 1000, datetime.UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{value % 1000:03d}"
    if isinstance(value, str):
        return visible(value.replace("\t", " "))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return visible(json.dumps(value, ensure_ascii=False))
