"""Finds the reader that holds a pipeline back, and says in words how the run is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gauss.model.names import inserted_topic
from gauss.model.units import counted, human_count, human_seconds

Row = dict[str, Any]

LATE_MS = 10_000
"""A reader that is further behind is worth a headline."""


@dataclass(frozen=True)
class LimitingReader:
    """A reader for which the writers of a full topic wait."""

    topic: str
    processor: str
    rate: float
    blocked_s: float

    @property
    def title(self) -> str:
        return f"the table {topic}" if (topic := inserted_topic(self.processor)) else self.processor


def limiting_reader(topics: dict[str, Row], processors: dict[str, Row]) -> LimitingReader | None:
    """The reader that blocks the most downstream full topic: what reads further up only waits for it."""
    found = [
        LimitingReader(
            name, row["blocked_by"], processors.get(row["blocked_by"], {}).get("rate", 0.0), row["blocked_s"]
        )
        for name, row in topics.items()
        if row["blocked_by"]
    ]
    # A processor whose own target is full waits itself; it is the cause only if nothing else is.
    first = [each for each in found if processors.get(each.processor, {}).get("pressure") != "filling"]
    return max(first or found, key=lambda each: each.blocked_s, default=None)


def headline(
    health: Row,
    topics: dict[str, Row],
    processors: dict[str, Row],
    limits: LimitingReader | None,
    *,
    offered: float,
    listening: list[str],
) -> Row:
    """`text` answers whether data flows; `detail` has the cause, what is safe, and the next step."""
    if not topics and not processors:
        detail = "The file has no topics and processors. gauss new writes one that works; start again with it."
        return _said("idle", "This pipeline is empty", detail)
    down = [each for each in health["processes"] if each["state"] != "ready"]
    if health["status"] == "draining":
        return _said("move", "The run is stopping", "Sources have stopped, sinks are flushed.")
    if down:
        return _process_down(down[0])
    failed = [name for name, row in processors.items() if row["pressure"] == "failed"]
    if failed:
        return _failed(failed, processors)
    if limits is not None:
        return _held(limits, offered)
    late = max(processors, key=lambda name: processors[name]["behind_ms"] or 0, default=None)
    if late is not None and (processors[late]["behind_ms"] or 0) > LATE_MS and processors[late]["behind"]:
        return _late(late, processors[late])
    if health["reasons"]:
        return _said("warn", health["reasons"][0], "; ".join(health["reasons"][1:]))
    if health["status"] == "starting":
        return _said("move", "The run is starting", "Sources already accept records; they wait in their topics.")
    return _flowing(topics, processors, listening)


def _flowing(topics: dict[str, Row], processors: dict[str, Row], listening: list[str]) -> Row:
    rate = max((row["rate"] for row in topics.values()), default=0.0)
    size = f"{counted(len(topics), 'topic')} and {counted(len(processors), 'processor')}"
    if not rate:
        ask = f" Sources listen on {', '.join(listening[:3])}." if listening else ""
        return _said("idle", "No records flow now", f"{size} are ready.{ask}")
    return _said("ok", f"{human_count(rate)}/s flow and nothing waits", f"{size} keep up with what comes in.")


def _process_down(child: Row) -> Row:
    waits = {
        "engine": "Sources and sinks are closed until it is back; file topics keep their records.",
        "driver": "Topics and sockets go on; what is read waits in its topics, nothing is lost.",
    }.get(child["name"], "Inserts are tried again; their records wait in the inbox.")
    word = "starts" if child["state"] == "starting" else "restarts" if child["state"] == "restarting" else "is down"
    name = "Spark's driver" if child["name"] == "driver" else f"The {child['name']}"
    why = f" {child['detail']}." if child.get("detail") else ""
    return _said("move" if child["state"] == "starting" else "bad", f"{name} {word}", f"{waits}{why}")


def _failed(failed: list[str], processors: dict[str, Row]) -> Row:
    first = processors[failed[0]]
    text = f"{failed[0]} has {first['state']}" if len(failed) == 1 else f"{len(failed)} processors have failed"
    many = first["behind"] or 0
    waiting = f"{human_count(many)} records wait for it, none is lost. " if many > 1 else ""
    waiting = waiting or "1 record waits for it and is not lost. " * (many == 1)
    return _said("bad", text, f"{waiting}{first['detail']}", processor=failed[0])


def why_held(limits: LimitingReader, offered: float) -> str:
    """Why writers of a full topic wait, and what is safe."""
    come = f", {human_count(offered)}/s are offered" if offered > 1.05 * limits.rate else ""
    since = f" for {human_seconds(limits.blocked_s)}" if limits.blocked_s >= 1 else ""
    return (
        f"{limits.title} reads {human_count(limits.rate)}/s{come}; {limits.topic} is full,"
        f" producers wait{since}, nothing is dropped"
    )


def _held(limits: LimitingReader, offered: float) -> Row:
    detail = why_held(limits, offered)
    text = f"{limits.title} holds all to {human_count(limits.rate)}/s"
    return _said("bad", text[0].upper() + text[1:] if text.startswith("the ") else text, detail,
                 processor=limits.processor, topic=limits.topic)  # fmt: skip


def _late(name: str, row: Row) -> Row:
    detail = (
        f"{human_count(row['behind'])} records wait for it, it reads {human_count(row['rate'])}/s;"
        " its topic still has room, so nothing else waits"
    )
    return _said("warn", f"{name} is {human_seconds(row['behind_ms'] / 1000)} behind", detail, processor=name)


def _said(level: str, text: str, detail: str, *, processor: str = "", topic: str = "") -> Row:
    return {"level": level, "text": text, "detail": detail, "processor": processor, "topic": topic}
