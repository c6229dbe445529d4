"""Quotes for tests of windows, and their windows computed in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Protocol

T = 1_700_000_040_000
QUOTE = {
    "name": "quote",
    "plugin": "json",
    "config": {
        "fields": [{"name": "k", "type": "string"}, {"name": "v", "type": "double"}, {"name": "t", "type": "int64"}]
    },
}
CANDLE = {"key_field": "k", "price_field": "v"}
PLACES = ("k", "window_start", "window_end", "ts_ms", "interval")

Row = tuple[str | None, float | None, int]


class Topics(Protocol):
    """A function that returns the records of a topic."""

    def records(self, topic: str) -> list[bytes]: ...


def encoded(rows: list[Row]) -> list[bytes]:
    return [json.dumps({"k": k, "v": v, "t": t}).encode() for k, v, t in rows]


def summed(rows: list[tuple[int, int, Row]]) -> dict[str, Any]:
    """Count, sum, minimum, maximum, mean, first and last of rows with time and offset."""
    ordered = [row for _, _, row in sorted(rows, key=lambda each: (each[0], each[1]))]
    values = [v for _, v, _ in ordered if v is not None]
    mean = sum(values) / len(values) if values else None
    numbers = {"s": sum(values), "lo": min(values), "hi": max(values)} if values else dict.fromkeys(("s", "lo", "hi"))
    return {"n": len(rows), **numbers, "m": mean, "a": ordered[0][1], "z": ordered[-1][1]}


def expected(kind: str, rows: list[Row]) -> list[dict[str, Any]]:
    """The expected windows, computed in plain Python."""
    placed = [(row[2], place, row) for place, row in enumerate(rows)]
    groups: dict[tuple[Any, ...], list[tuple[int, int, Row]]] = defaultdict(list)
    for each in placed:
        t, k = each[0], each[2][0]
        if kind == "agg":
            groups[k, t // 1000 * 1000, t // 1000 * 1000 + 1000].append(each)
        elif kind == "slide":
            for begin in range(t // 300 * 300, t - 1000, -300):
                groups[k, begin, begin + 1000].append(each)
        elif kind == "ohlc":
            for name, length in (("1s", 1000), ("4s", 4000)):
                groups[k, t // length * length, name].append(each)
    if kind == "session":
        groups = defaultdict(list)
        for key in {row[0] for row in rows}:
            session: list[tuple[int, int, Row]] = []
            for each in sorted(each for each in placed if each[2][0] == key):
                if session and each[0] - session[-1][0] > 150:
                    groups[key, session[0][0], session[-1][0] + 150] = session
                    session = []
                session = [*session, each]
            groups[key, session[0][0], session[-1][0] + 150] = session
    if kind == "ohlc":
        columns = {"open": "a", "high": "hi", "low": "lo", "close": "z", "volume": "s"}
        made = [
            {"ts_ms": begin, "k": key, "interval": name, **{new: summed(found)[old] for new, old in columns.items()}}
            for (key, begin, name), found in groups.items()
        ]
    else:
        made = [
            {"k": key, "window_start": begin, "window_end": end, **summed(found)}
            for (key, begin, end), found in groups.items()
        ]
    return in_order(made)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps([row[name] for name in PLACES if name in row]))


def results(run: Topics, name: str) -> list[dict[str, Any]]:
    """The rows that a processor has written."""
    return in_order([json.loads(data) for data in run.records(f"{name}.out")])
