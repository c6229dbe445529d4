"""The plan of a scan in words, for `gauss scan --explain`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gauss.contracts.cursor import (
    Agg,
    KeyRange,
    Last,
    Mode,
    OffsetRange,
    Point,
    Prefix,
    Program,
    Seq,
    TimeRange,
    View,
)
from gauss.contracts.expression import Make, Select
from gauss.scan.aggregate import AggCursor
from gauss.scan.binding import Binding
from gauss.scan.codes import error_of
from gauss.scan.program.fuel import ROW
from gauss.stream.formats import TopicFormat

if TYPE_CHECKING:
    from gauss.stream.engine.topics.topic import Scannable

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[(\[{)\]}|]')
BACKEND = "Arrow columns, in the engine beside the data"


def explain(topic: Scannable, program: Program, known: TopicFormat | None) -> dict[str, Any]:
    """The plan of a scan over the topic in its current state; `known` is the topic's format. Raises like an open."""
    opened = topic.source.open(program)
    if opened.cursor_id == 0:
        raise opened.fault or error_of(opened.code, f'topic "{topic.name}" can\'t be read')
    try:
        executor = topic.source.executor(opened.cursor_id)
        pinned, start = executor.pinned_version, executor.position
        cursor = executor.cursor.cursor if isinstance(executor.cursor, AggCursor) else executor.cursor
        sql, order = getattr(cursor, "sql", ""), getattr(cursor, "order", "")
    finally:
        topic.source.close(opened.cursor_id)
    is_log = "offset" in topic.source.provider.candidates().names
    candidates = _candidates(topic, program.view, start, pinned, is_log)
    looks = bool(program.stages) or isinstance(program.view, Agg)
    source = topic.source
    binding = Binding(program, source.provider, source.formats, source.default_format) if looks else None
    cost = ROW if binding is None else binding.bound.static_cost
    return {
        "topic": topic.name,
        "mode": "live: the pinned version, then its changes" if program.mode is Mode.LIVE else "snapshot",
        "view": "seq: every row" if sql and isinstance(program.view, Seq) else view_words(program.view, is_log),
        "stages": _stage_words(program),
        "output": program.output.value,
        "columns": _columns(topic, program, binding),
        "backend": BACKEND if binding is not None else "none: records pass unchanged",
        "format": None if sql else _format(program, known),
        "decodes": {} if binding is None else {name: str(binding.bound.fields[name]) for name in binding.decoded},
        "reads": [] if binding is None else binding.own,
        "pushed_down": [f"to the table, rows come {order}"] if sql else _pushed(program, binding, is_log),
        "sql": sql,
        "pinned_version": pinned,
        "candidates": candidates,
        "cost": {
            "per_candidate": cost,
            "scan_at_least": cost * candidates,
            "max_per_candidate": topic.source.capabilities.max_fuel_item,
            "max_scan": topic.source.capabilities.max_fuel_scan,
        },
    }


def view_words(view: View, is_log: bool) -> str:
    """Describes what a view reads."""
    match view:
        case Seq(start=None):
            return "seq: every record, oldest first" if is_log else "seq: every row, ordered by key"
        case Seq(start=start):
            return f"seq: records from offset {start} on" if is_log else f"seq: changes after version {start}"
        case OffsetRange(start=start, stop=stop):
            return f"range: records from offset {start} {_to(stop)}"
        case TimeRange(start_ms=start, stop_ms=stop):
            return f"range: {'records' if is_log else 'rows'} with ts_ms from {start} {_to(stop)}"
        case KeyRange(start=start, stop=stop):
            return f"range: keys from {start!r} {_to(stop)}" if start is not None else f"range: keys {_to(stop)}"
        case Prefix(prefix=prefix):
            return f"prefix: keys that begin with {prefix!r}"
        case Point(key=key):
            return f"point: the row of {key!r}"
        case Last():
            return "point: the newest record"
        case Agg(aggregates=aggregates):
            made = ", ".join(f"{name} = {what}({f'.{of}' if of else ''})" for name, what, of in aggregates)
            return f"agg: all records as one: {made}"


def _to(stop: object) -> str:
    return "to the end" if stop is None else f"up to {stop!r}"


def _stage_words(program: Program) -> list[str]:
    """Describes each stage, with the text of the program where it can be split."""
    pieces = _pieces(program.text)[-len(program.stages) :] if program.stages else []
    found = []
    for index, stage in enumerate(program.stages):
        text = pieces[index] if len(pieces) == len(program.stages) else ""
        if isinstance(stage, Select):
            found.append(f"keeps {text or 'rows by a condition'}")
        else:
            made = ", ".join(name for name, _ in stage.columns) if isinstance(stage, Make) else "a value"
            found.append(f"makes {text or made}")
    return found


def _pieces(text: str) -> list[str]:
    """Splits a program at its bars, except for those inside brackets or texts."""
    depth, begin, found = 0, 0, []
    for match in _MARKS.finditer(text):
        mark = match.group()
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "|" and depth == 0:
            found.append(text[begin : match.start()])
            begin = match.end()
    return [" ".join(piece.split()) for piece in [*found, text[begin:]]]


def _columns(topic: Scannable, program: Program, binding: Binding | None) -> list[str]:
    if binding is not None and binding.bound.columns is not None:
        return list(binding.bound.columns)
    if isinstance(program.view, Agg):
        return [name for name, _, _ in program.view.aggregates]
    return list(topic.source.provider.candidates().names)


def _format(program: Program, known: TopicFormat | None) -> dict[str, str] | None:
    if program.format:
        return {"name": program.format, "why": "as the scan names it"}
    return None if known is None else {"name": known.name, "why": known.why}


def _candidates(topic: Scannable, view: View, start: int, pinned: int, is_log: bool) -> int:
    """Maximum number of records or rows of the view."""
    if isinstance(view, Point):
        return 1
    if not is_log or isinstance(view, Agg):
        records = topic.stats()["records"]
        assert isinstance(records, int)
        return records
    stop = pinned
    if isinstance(view, OffsetRange) and view.stop is not None:
        stop = min(view.stop, pinned)
    elif isinstance(view, TimeRange) and view.stop_ms is not None:
        stop = min(topic.offset_at(view.stop_ms), pinned)
    return max(stop - start, 0)


def _pushed(program: Program, binding: Binding | None, is_log: bool) -> list[str]:
    """Describes what the storage does itself."""
    view = program.view
    found = []
    if isinstance(view, TimeRange):
        found.append(
            "the range of times: found in the index" if is_log else "the range of times: compared column by column"
        )
    elif isinstance(view, Seq | OffsetRange) and getattr(view, "start", None) is not None:
        found.append("the range: reading begins there" if is_log else "the version: the table itself is not read")
    elif isinstance(view, KeyRange | Prefix | Point):
        found.append("the keys: found by binary search in sorted runs")
    elif isinstance(view, Last):
        found.append("the newest record: no other is read")
    if binding is None:
        found.append("everything: nothing is decoded")
    elif not binding.decoded and isinstance(view, Agg) and is_log:
        found.append("the count: records are not read")
    elif binding.decoded:
        found.append(f"the fields: only {', '.join(binding.decoded)} are decoded")
    else:
        found.append("the fields: records are not decoded")
    return found
