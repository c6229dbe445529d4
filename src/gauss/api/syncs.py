"""Syncs over HTTP: their runs, cursors and metrics; started on request."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body

from gauss.connect.metrics import Key, Total, to_json
from gauss.connect.schedule import SyncSchedule
from gauss.connect.scheduled import ScheduledSync
from gauss.connect.sync_child import StreamProgress
from gauss.contracts.connector.cursor import CursorValue, TimestampMicrosCursor, TimestampMillisCursor
from gauss.contracts.connector.json_form import decode
from gauss.model.errors import ConfigError, GaussError
from gauss.stream.control.run import Running

HELP = "What a connector of a sync has measured"
FAILED = ("failed", "lost")


def routes(running: Running, schedule: SyncSchedule) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["syncs"])

    def shown(sync: ScheduledSync) -> dict[str, Any]:
        found: dict[str, Any] = running.redactor.redact_data(describe(sync))
        return found

    @router.get("/syncs", summary="All syncs with state, last run, next run and cursors")
    def syncs() -> dict[str, Any]:
        return {"syncs": [shown(sync) for sync in schedule.syncs.values()]}

    @router.get("/syncs/{name}", summary="One sync")
    def sync(name: str) -> dict[str, Any]:
        return shown(schedule.get(name))

    @router.post("/syncs/{name}/run", status_code=202, summary="Start a sync now")
    def run(name: str) -> dict[str, Any]:
        schedule.get(name).run_now()
        return shown(schedule.get(name))

    @router.post("/syncs/{name}/stop", status_code=202, summary="Stop a run: it writes what it has read, and ends")
    def stop(name: str) -> dict[str, Any]:
        schedule.get(name).cancel()
        return shown(schedule.get(name))

    @router.get("/syncs/{name}/runs", summary="The last runs of a sync, the newest first")
    def runs(name: str) -> dict[str, Any]:
        found: dict[str, Any] = running.redactor.redact_data({"runs": schedule.get(name).history()})
        return found

    @router.put("/syncs/{name}/streams/{stream}/cursor", summary="Set the cursor of a stream; null reads all again")
    def set_cursor(
        name: str, stream: str, cursor: Annotated[dict[str, Any] | None, Body(embed=True)]
    ) -> dict[str, Any]:
        try:
            value = None if cursor is None else decode(msgspec.json.encode(cursor), CursorValue)
        except msgspec.MsgspecError as error:
            raise ConfigError(f"the cursor can't be read: {error}", hint='for example {"int64": 5}') from error
        schedule.get(name).set_cursor(stream, value)
        return shown(schedule.get(name))

    return router


def describe(sync: ScheduledSync) -> dict[str, Any]:
    """A sync as JSON types."""
    definition = sync.definition
    try:
        history, cursors, problem = sync.history(), sync.cursors(), ""
    except GaussError as error:  # a state store elsewhere that does not answer
        history, cursors, problem = [], {}, error.message
    last = _last(sync, history)
    state = "running" if sync.is_running() or (last and last["status"] == "running") else "idle"
    if state == "idle" and last and last["status"] in FAILED:
        state = "failed"
    every = definition.every
    known = [] if definition.streams == "*" else [each.name for each in definition.streams]
    report = _streams(sync, history)
    return {
        "name": definition.name,
        "source": definition.source.connector,
        "destination": definition.destination.connector,
        "every": _duration(every) if isinstance(every, int) else every,
        "state": state,
        "last": last,
        "next_ms": sync.due_ms(),
        "letters": sync.letters.count(),
        "problem": problem,
        "streams": [
            {
                "name": stream,
                "status": report[stream].status if stream in report else None,
                "rows": report[stream].rows if stream in report else None,
                "cursor": cursors[stream].json() if stream in cursors else None,
                "cursor_ms": cursors[stream].at_ms if stream in cursors else None,
                "metrics": to_json(report[stream].metrics) if stream in report else [],
                "lag_ms": _lag_ms(cursors[stream].value) if stream in cursors else None,
            }
            for stream in dict.fromkeys([*known, *report, *cursors])
        ],
    }


def _streams(sync: ScheduledSync, history: list[dict[str, Any]]) -> dict[str, StreamProgress]:
    """What the last run has done of each stream."""
    newest = sync.later_elsewhere(history)
    if newest is not None:
        return {
            each["stream"]: StreamProgress(each["status"], each["rows"], each["bytes"]) for each in newest["streams"]
        }
    return sync.last.streams if sync.last is not None else {}


def _last(sync: ScheduledSync, history: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last run: what its process here has told, or what the history has of one elsewhere."""
    mine, newest = sync.last, sync.later_elsewhere(history)
    if mine is not None and newest is None:
        return {
            "run": mine.run,
            "status": mine.status,
            "started_ms": mine.started_ms,
            "ended_ms": mine.ended_ms,
            "seconds": round(mine.seconds, 3),
            "rows": mine.rows,
            "bytes": mine.bytes,
            "error": mine.error,
        }
    if newest is None:
        return None
    ended, streams = newest["ended_ms"], newest["streams"]
    return {
        "run": f"{newest['sync']}#{newest['generation']}",
        "status": newest["status"],
        "started_ms": newest["started_ms"],
        "ended_ms": ended,
        "seconds": None if ended is None else (ended - newest["started_ms"]) / 1000,
        "rows": sum(each["rows"] for each in streams) if streams else None,
        "bytes": sum(each["bytes"] for each in streams) if streams else None,
        "error": newest["detail"],
    }


def _duration(ms: int) -> str:
    """A duration as a config has it: 5m."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def _lag_ms(cursor: CursorValue | None) -> int | None:
    """How old the last row is that was read, if the cursor is a time."""
    now = time.time_ns() // 1_000_000
    if isinstance(cursor, TimestampMillisCursor):
        return max(now - cursor.value, 0)
    return max(now - cursor.value // 1000, 0) if isinstance(cursor, TimestampMicrosCursor) else None


def sync_metrics(schedule: SyncSchedule) -> list[dict[str, Any]]:
    """The metrics of all syncs."""
    return [metric for sync in schedule.syncs.values() for metric in _metrics(sync)]


def _metrics(sync: ScheduledSync) -> Iterator[dict[str, Any]]:
    def metric(name: str, kind: str, help_text: str, value: float, **labels: str) -> dict[str, Any]:
        given = {"sync": sync.definition.name, **labels}
        return {"name": f"gauss_sync_{name}", "type": kind, "help": help_text, "labels": given, "value": value}

    rows, size = sync.totals()
    yield metric("running", "gauge", "1 while a sync runs", int(sync.is_running()))
    for status in ("succeeded", "failed", "cancelled"):
        yield metric("runs_total", "counter", "Runs of a sync that have ended", sync.runs[status], status=status)
    yield metric("rows_total", "counter", "Rows that a sync has written", rows)
    yield metric("bytes_total", "counter", "Bytes that a sync has written", size)
    yield metric("letters", "gauge", "Dead letters of a sync", sync.letters.count())
    # By name and labels: two names of a connector may become one here, and a sample may be there only once.
    measured = {
        (found["name"], *sorted(found["labels"].items())): found
        for stream, totals in sync.metrics().items()
        for key, total in totals.items()
        for found in _connector_metrics(sync.definition.name, stream, key, total)
    }
    yield from measured.values()
    if sync.ended is not None:
        yield metric("last_duration_seconds", "gauge", "Duration of the last run that has ended", sync.ended.seconds)
    if sync.success_ms is not None:
        yield metric(
            "last_success_timestamp_seconds", "gauge", "End of the last successful run", sync.success_ms / 1000
        )


def _connector_metrics(sync: str, stream: str, key: Key, total: Total) -> Iterator[dict[str, Any]]:
    """What a connector has measured, under a name that Prometheus accepts."""
    name = f"gauss_sync_connector_{_word(key.name)}"
    labels = {_word(label): text for label, text in key.labels}
    given = {"labels": {**labels, "sync": sync, "stream": stream, "connector": key.connector}}
    match total.kind:
        case "counter":
            yield {**given, "name": f"{name}_total", "type": "counter", "help": HELP, "value": total.value}
        case "gauge":
            yield {**given, "name": name, "type": "gauge", "help": HELP, "value": total.value}
        case _:
            yield {**given, "name": f"{name}_sum", "type": "counter", "help": HELP, "value": total.value}
            yield {**given, "name": f"{name}_count", "type": "counter", "help": HELP, "value": total.number}


def _word(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]|^(?=[0-9]|$)", "_", name)
