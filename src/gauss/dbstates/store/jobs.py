"""Jobs, their tasks and their events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gauss.dbstates.store.metadata import Metadata, Row, now_ms
from gauss.model.errors import GaussError, NotFound

UNREAD_MS = 60_000
"""An ended job is kept this long for a client that has not read its end."""
TERMINAL = frozenset({"succeeded", "failed"})
EVENT_BYTES = 64 << 10
"""Longer messages are cut."""


class Jobs:
    """The queue of jobs: every change is stored before it is told."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._watchers: list[Callable[[str], None]] = []
        self._read: set[str] = set()
        """Jobs whose end a client has read."""

    def watch(self, changed: Callable[[str], None]) -> None:
        """Calls `changed` with the id of a job after each of its events."""
        self._watchers.append(changed)

    def add(self, job: str, signature: str, request: dict[str, Any]) -> None:
        self._metadata.insert(
            "jobs", id=job, signature=signature, status="queued", request=json.dumps(request), created_ms=now_ms()
        )
        self.event(job, "status", status="queued")

    def start(self, job: str) -> None:
        self._metadata.update("jobs", "id = ?", job, status="running", started_ms=now_ms())
        self.event(job, "status", status="running")

    def succeed(self, job: str, result: dict[str, Any]) -> None:
        now = now_ms()
        with self._metadata.transaction():
            self._metadata.update(
                "jobs", "id = ?", job, status="succeeded", ended_ms=now, result=json.dumps(result), error=None
            )
            self._append(job, "result", result)
            self._append(job, "status", {"status": "succeeded"})
        self._tell(job)

    def fail(self, job: str, error: GaussError) -> None:
        """Ends a job and its open tasks; without effect on an ended one."""
        told = error.to_dict()
        with self._metadata.transaction():
            if self.status(job) in TERMINAL:
                return
            for task in self.tasks(job):
                if task["status"] in ("queued", "running"):
                    status = "failed" if task["status"] == "running" else "skipped"
                    self.task(job, task["number"], status=status, error=told if status == "failed" else None)
            self._metadata.update("jobs", "id = ?", job, status="failed", ended_ms=now_ms(), error=json.dumps(told))
            self._append(job, "error", {"error": told})
            self._append(job, "status", {"status": "failed"})
        self._tell(job)

    def status(self, job: str) -> str:
        found = self._metadata.value("SELECT status FROM jobs WHERE id = ?", job)
        if found is None:
            raise NotFound(f"no job {job}", hint="GET /v1/prepare-jobs lists them")
        return str(found)

    def exists(self, job: str) -> bool:
        return self._metadata.value("SELECT 1 FROM jobs WHERE id = ?", job) is not None

    def get(self, job: str) -> Row:
        """A job as the API shows it, with its tasks."""
        found = self._metadata.row("SELECT * FROM jobs WHERE id = ?", job)
        if found is None:
            raise NotFound(f"no job {job}", hint="GET /v1/prepare-jobs lists them")
        return {**_shown(found), "tasks": self.tasks(job)}

    def request(self, job: str) -> dict[str, Any]:
        return dict(json.loads(self._metadata.value("SELECT request FROM jobs WHERE id = ?", job) or "{}"))

    def all(self) -> list[Row]:
        return [_shown(row) for row in self._metadata.rows("SELECT * FROM jobs ORDER BY created_ms, id")]

    def open(self) -> list[str]:
        """Jobs that are queued or running, in order."""
        query = "SELECT id FROM jobs WHERE status IN ('queued', 'running') ORDER BY created_ms, id"
        return [row["id"] for row in self._metadata.rows(query)]

    def read_to_end(self, job: str) -> None:
        """Notes that a client has read how a job ended."""
        self._read.add(job)

    def surplus(self, most: int) -> list[str]:
        """Ended jobs beyond the newest ones with the same request, whose end has been read or could have been."""
        query = """
            SELECT id, ended_ms FROM (
                SELECT id, ended_ms, row_number() OVER
                    (PARTITION BY signature ORDER BY ended_ms DESC, created_ms DESC) AS number
                FROM jobs WHERE ended_ms > 0)
            WHERE number > ?"""
        before = now_ms() - UNREAD_MS
        return [row["id"] for row in self._metadata.rows(query, most) if self._is_read(row, before)]

    def _is_read(self, row: Row, before: int) -> bool:
        return row["id"] in self._read or not before < row["ended_ms"] <= now_ms()

    def remove(self, job: str) -> None:
        self._metadata.execute("DELETE FROM jobs WHERE id = ?", job)
        self._read.discard(job)
        self._tell(job)

    # --- tasks ---

    def add_task(self, job: str, type: str, title: str, *, state: str | None = None, cached: bool | None = None) -> int:
        """A new task; returns its number."""
        with self._metadata.transaction():
            number = int(self._metadata.value("SELECT count(*) FROM tasks WHERE job = ?", job)) + 1
            status = "succeeded" if cached else "queued"
            self._metadata.insert(
                "tasks", job=job, number=number, type=type, title=title, status=status,
                cached=None if cached is None else int(cached), state=state,
            )  # fmt: skip
            self._append(job, "task", {"task": self._task(job, number)})
        self._tell(job)
        return number

    def task(self, job: str, number: int, *, status: str, cached: bool | None = None, error: Any = None) -> None:
        """Changes the status of a task."""
        changes: dict[str, Any] = {"status": status}
        if status == "running":
            changes["started_ms"] = now_ms()
        else:
            changes["ended_ms"] = now_ms()
        if cached is not None:
            changes["cached"] = int(cached)
        if error is not None:
            changes["error"] = json.dumps(error)
        with self._metadata.transaction():
            self._metadata.update("tasks", "job = ? AND number = ?", job, number, **changes)
            self._append(job, "task", {"task": self._task(job, number)})
        self._tell(job)

    def tasks(self, job: str | None = None) -> list[Row]:
        where, values = ("WHERE job = ?", (job,)) if job is not None else ("", ())
        found = self._metadata.rows(f"SELECT * FROM tasks {where} ORDER BY job, number", *values)
        return [_shown_task(row) for row in found]

    def drop_tasks(self, job: str) -> None:
        """Forgets the tasks of a job that is run again."""
        self._metadata.execute("DELETE FROM tasks WHERE job = ?", job)

    def _task(self, job: str, number: int) -> dict[str, Any]:
        found = self._metadata.row("SELECT * FROM tasks WHERE job = ? AND number = ?", job, number)
        assert found is not None
        return _shown_task(found)

    # --- events ---

    def event(self, job: str, type: str, **body: Any) -> None:
        """Appends an event."""
        with self._metadata.transaction():
            self._append(job, type, body)
        self._tell(job)

    def log(self, job: str, message: str, **more: Any) -> None:
        self.event(job, "log", message=message[:EVENT_BYTES], **more)

    def events(self, job: str, first: int, limit: int) -> list[str]:
        """Events from a number on, as JSON."""
        query = "SELECT event FROM events WHERE job = ? AND seq >= ? ORDER BY seq LIMIT ?"
        return [row["event"] for row in self._metadata.rows(query, job, first, limit)]

    def running_task(self, job: str, before: int) -> str | None:
        """The last task event before a number, as JSON, if its task runs then."""
        query = """
            SELECT event FROM events WHERE job = ? AND seq < ? AND json_extract(event, '$.type') = 'task'
            ORDER BY seq DESC LIMIT 1"""
        found: str | None = self._metadata.value(query, job, before)
        return found if found is not None and json.loads(found)["task"]["status"] == "running" else None

    def _append(self, job: str, kind: str, body: dict[str, Any]) -> None:
        seq = int(self._metadata.value("SELECT coalesce(max(seq), 0) FROM events WHERE job = ?", job)) + 1
        event = {"seq": seq, "ts": now_ms(), "type": kind, **body}
        self._metadata.execute("INSERT INTO events VALUES (?, ?, ?)", job, seq, json.dumps(event))

    def _tell(self, job: str) -> None:
        for changed in self._watchers:
            changed(job)


def _shown(row: Row) -> Row:
    request = json.loads(row["request"])
    return {
        "job_id": row["id"],
        "status": row["status"],
        **{name: request.get(name) for name in ("prepare_kind", "args", "cwd", "image", "plan_only", "deadline_secs")},
        "created_ms": row["created_ms"],
        "started_ms": row["started_ms"],
        "ended_ms": row["ended_ms"],
        "result": json.loads(row["result"]) if row["result"] else None,
        "error": json.loads(row["error"]) if row["error"] else None,
    }


def _shown_task(row: Row) -> Row:
    started, ended = row["started_ms"], row["ended_ms"]
    return {
        "task_id": f"{row['job']}-{row['number']}",
        "job_id": row["job"],
        "number": row["number"],
        "type": row["type"],
        "title": row["title"],
        "status": row["status"],
        "cached": None if row["cached"] is None else bool(row["cached"]),
        "state_id": row["state"],
        "started_ms": started,
        "ended_ms": ended,
        "duration_ms": None if started is None or ended is None else ended - started,
        "error": json.loads(row["error"]) if row["error"] else None,
    }
