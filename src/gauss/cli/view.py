"""The live view of a run, rendered from `/api/status`, for `gauss run` and `gauss top`."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gauss.cli.columns import Column, Columns
from gauss.cli.output import visible
from gauss.cli.topics import fill, late, seconds, storage
from gauss.model.names import DEAD_TOPIC, is_internal
from gauss.model.units import counted, human_bytes

Row = dict[str, Any]
SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row["name"],
    "rate": lambda row: -_rate(row),
    "behind": lambda row: -(row.get("behind") or 0),
    "dead": lambda row: -(row.get("dead") or 0),
}
STATES = {"running": "green", "ready": "green", "done": "green", "failed": "bold red", "degraded": "bold yellow"}


def render(
    status: Row, *, interval: str = "1 s", sort: str = "", pattern: str = "*", footer: str = ""
) -> RenderableType:
    """Renders header, problems, topics, processors and syncs."""
    parts: list[RenderableType] = [_header(status, interval)]
    for reason in status["reasons"]:
        parts.append(_text(f"! {reason}", "yellow"))
    parts += [Text(), _topics(_chosen(status["topics"], sort, pattern), sort), Text()]
    parts.append(_processors(_chosen(status["processors"], sort, pattern), sort))
    if syncs := [row for row in status.get("syncs", []) if fnmatch.fnmatchcase(row["name"], pattern)]:
        parts += [Text(), _syncs(syncs)]
    dead = next((topic["records"] for topic in status["topics"] if topic["name"] == DEAD_TOPIC), 0)
    if dead:
        parts += [Text(), Text(f"{counted(dead, 'dead letter')}: gauss dlq ls", style="yellow")]
    if footer:
        parts += [Text(), Text(footer, style="dim")]
    return Group(*parts)


def _chosen(rows: list[Row], sort: str, pattern: str) -> list[Row]:
    found = [row for row in rows if not row.get("hidden") and fnmatch.fnmatchcase(row["name"], pattern)]
    return sorted(found, key=SORTS[sort]) if sort else found


def _header(status: Row, interval: str) -> Text:
    header = Text(overflow="ellipsis", no_wrap=True)
    header.append("gauss ", style="bold")
    header.append(status["status"], style=STATES.get(status["status"], "yellow"))
    place = f"{Path(status['config']).name}  {status['url']}"
    header.append(visible(f"  {place}  up {uptime(status['uptime_s'])}  every {interval}"))
    return header


def _titles(sort: str, *columns: tuple[str, str, int]) -> list[Column]:
    """Columns as (title, sort key, drop priority); the sorted one is marked."""
    left = ("topic", "processor", "sync", "storage", "kind", "state", "last run")
    return [
        Column(title + (" ▼" if key and key == sort else ""), right=title not in left, spare=spare)
        for title, key, spare in columns
    ]


def _text(value: object, style: str = "") -> Text:
    return Text(visible(str(value)), style=style)


def _remark(text: str, style: str) -> Text:
    return Text(visible(text), style=style, no_wrap=True)


def _topics(rows: list[Row], sort: str) -> Columns:
    columns = _titles(
        sort, ("topic", "name", 0), ("storage", "", 1), ("holds", "", 0), ("in", "rate", 0), ("fill", "", 2),
        ("dropped", "", 0),
    )  # fmt: skip
    cells, remarks = [], []
    for row in rows:
        dropped = row["dropped"] + row["overwritten"] + row["lost"]
        note = f"blocked {seconds(1000 * row['blocked_s'])} by {row['blocked_by']}" if row.get("blocked_by") else ""
        cells.append(
            [
                _text(row["name"]),
                _text(storage(row)),
                _text(f"{row['records']:,} · {human_bytes(row['bytes'])}"),
                _text(rated(row["appended"], _rate(row))),
                _text(fill(row)),
                _text(f"{dropped:,}", "yellow" if dropped else "dim"),
            ]
        )
        remarks.append(_remark(note, "yellow"))
    return Columns(columns, cells, remarks)


def _processors(rows: list[Row], sort: str) -> Columns:
    spark = any(row["where"] == "spark" for row in rows)
    columns = _titles(
        sort, ("processor", "name", 0), ("kind", "", 1), ("state", "", 0), ("records", "rate", 0),
        ("behind", "behind", 0), ("dead", "dead", 0), *([("last batch", "", 2)] if spark else []),
    )  # fmt: skip
    cells, remarks = [], []
    for row in rows:
        batch = f"{row['batch_rows']:,} in {row['batch_ms']} ms" if row.get("batch_ms") else ""
        cells.append(
            [
                _text(row["plugin"] if is_internal(row["name"]) else row["name"]),
                _text("spark" if row["where"] == "spark" else row["role"]),
                _text(row["state"], STATES.get(row["state"], "yellow")),
                _text(rated(row["records"], _rate(row))),
                _text(behind(row)),
                _text(f"{row['dead']:,}", "red" if row["dead"] else "dim"),
                *([_text(batch)] if spark else []),
            ]
        )
        remarks.append(_remark(_detail(row), "dim"))
    return Columns(columns, cells, remarks)


def _syncs(rows: list[Row]) -> Columns:
    columns = _titles("", ("sync", "", 0), ("state", "", 0), ("rows", "", 0), ("last run", "", 0), ("next", "", 1))
    cells, remarks = [], []
    for row in rows:
        last = row["last"]
        done = f"{last['status']}, {counted(last['rows'], 'row')} in {last['seconds']:.1f} s" if last else "–"
        left = None if row["next_ms"] is None else max(row["next_ms"] / 1000 - time.time(), 0.0)
        cells.append(
            [
                _text(row["name"]),
                _text(row["state"], STATES.get(row["state"], "")),
                _text(f"{row['rows']:,}"),
                _text(done),
                _text("–" if left is None else f"in {uptime(left)}"),
            ]
        )
        remarks.append(_remark(row["detail"], "dim"))
    return Columns(columns, cells, remarks)


def times(row: Row) -> str:
    """How the time of a standing task's last epoch was spent."""
    tasks = row.get("tasks") or []
    if not tasks:
        return ""
    last = min(tasks, key=lambda task: float(task["told_s"]))
    spent = ", ".join(f"{what} {last[f'{what}_ms']:.0f}" for what in ("read", "work", "publish"))
    several = f"{counted(len(tasks), 'task')}, " if len(tasks) > 1 else ""
    again = f", attempt {last['attempt'] + 1}" if last["attempt"] else ""
    return f"{several}{spent} ms{again}"


def _detail(row: Row) -> str:
    address, count = row.get("address"), row.get("connections") or 0
    peers = counted(count, "connection") if address else ""
    return " · ".join(part for part in (address, peers, row.get("detail"), times(row), late(row)) if part)


def _rate(row: Row) -> float:
    rates = row.get("rates", {})
    return float(rates.get("appended", rates.get("records", 0.0)) or 0.0)


def rated(total: int, rate: float) -> str:
    return f"{total:,} ({rate:,.0f}/s)"


def behind(row: Row) -> str:
    """The lag in records, and the age of the oldest unread one."""
    if row.get("behind") is None:
        return "–"
    if not row["behind"]:
        return "0"
    return f"{row['behind']:,}" + (f" ({seconds(row['behind_ms'])})" if row.get("behind_ms") else "")


def uptime(seconds_up: float) -> str:
    whole = int(seconds_up)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
