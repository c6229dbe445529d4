"""The processes of a run with their memory, and their logs."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import psutil
from fastapi import APIRouter, Query

from gauss.model.errors import ConfigError, NotFound
from gauss.process.guard import session_members
from gauss.stream.control.run import Running

READ_BYTES = 4 << 20
"""The end of each log that is searched."""
MOST_LINES = 1000
LEVELS = ("debug", "info", "warning", "error", "critical")
_PLAIN = re.compile(r"\b(ERROR|WARN|WARNING|FATAL|CRITICAL)\b")
_TIMED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ")
"""The local time at the beginning of Spark's lines."""

Row = dict[str, Any]


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["run"])
    tails: dict[Path, LogTail] = {}

    @router.get("/processes", summary="All processes with state, restarts, memory and processor time")
    def processes() -> dict[str, Any]:
        own = {"name": "control", "state": "ready", "restarts": 0, "detail": "", **_used([os.getpid()])}
        children = [
            {
                "name": child.spec.name,
                "state": child.state,
                "restarts": child.restarts,
                "detail": running.redactor.redact(child.detail),
                **_used(session_members(child.guard_pid) if child.guard_pid else []),
            }
            for child in running.children
        ]
        return {"processes": [own, *children], "free_bytes": running.health()["free_bytes"]}

    @router.get("/logs", summary="Lines of the logs of all processes, the newest first")
    def logs(
        process: Annotated[str | None, Query(description="only this process, such as engine")] = None,
        search: Annotated[str, Query(description="only lines with this text, without regard to case")] = "",
        level: Annotated[str, Query(description="only lines of this level and above it")] = "debug",
        limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 200,
    ) -> dict[str, Any]:
        if level not in LEVELS:
            raise ConfigError(f"level: expected one of {', '.join(LEVELS)} (got {level[:40]!r})")
        files = {path.name.removesuffix(".log"): path for path in sorted(running.held.paths.logs.glob("*.log"))}
        if process is not None and process not in files:
            raise NotFound(f'no log "{process[:40]}"', hint=f"there are: {', '.join(files)}")
        least, text = LEVELS.index(level), search.lower()
        found = [
            row
            for name, path in files.items()
            if process in (None, name)
            for row in tails.setdefault(path, LogTail(name, path)).rows()
            if LEVELS.index(row["level"]) >= least and text in f"{row['message']} {row['logger']}".lower()
        ]
        found.sort(key=lambda row: str(row["time"]), reverse=True)
        shown: dict[str, Any] = running.redactor.redact_data({"logs": list(files), "lines": found[:limit]})
        return shown

    return router


def _used(pids: list[int]) -> Row:
    """Memory and processor time of some processes, together."""
    memory, seconds = 0, 0.0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            memory += process.memory_info().rss
            times = process.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        seconds += times.user + times.system
    return {"pid": pids[0] if pids else None, "memory_bytes": memory, "cpu_seconds": round(seconds, 1)}


class LogTail:
    """The rows at the end of a log, of which only what is new is read. Thread-safe."""

    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self, file: int | None = None, start: int = 0) -> None:
        self._file, self._read = file, start
        self._rows: deque[tuple[int, Row]] = deque()
        """With the size of their lines."""
        self._bytes = 0
        self._time = ""

    def rows(self) -> list[Row]:
        """The rows of the last `READ_BYTES`, the oldest first. A line that is not complete yet is left out."""
        with self._lock:
            try:
                with self._path.open("rb") as file:
                    found = os.fstat(file.fileno())
                    if found.st_ino != self._file or found.st_size < self._read:  # rotated
                        self._forget(found.st_ino, max(0, found.st_size - READ_BYTES))
                    file.seek(max(self._read, found.st_size - READ_BYTES))
                    self._add(file)
            except OSError:
                self._forget()
            return [row for _, row in self._rows]

    def _add(self, file: BinaryIO) -> None:
        self._read = file.tell()
        for line in file:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            if line.strip():
                row = _row(self._name, line.decode(errors="replace").rstrip("\r\n"), self._time)
                self._time = row["time"]
                self._rows.append((len(line), row))
                self._bytes += len(line)
        while self._bytes > READ_BYTES:
            self._bytes -= self._rows.popleft()[0]


def _row(name: str, line: str, time: str) -> Row:
    """A line of a log as a row. What a process has only printed takes the time of the line before it."""
    try:
        row = json.loads(line)
        level = str(row["level"]).lower()
        more = str(row.get("exception") or row.get("traceback") or "")
        return {
            "process": name,
            "time": str(row["time"]),
            "level": level if level in LEVELS else "info",
            "logger": str(row.get("logger", "")),
            "message": str(row["message"]) + (f"\n{more}" if more else ""),
        }
    except (ValueError, KeyError, TypeError):
        word = _PLAIN.search(line)
        written = _TIMED.match(line)
        return {
            "process": name,
            "time": datetime.fromisoformat(written[1]).astimezone(UTC).isoformat() if written else time,
            "level": {"WARN": "warning", "WARNING": "warning"}.get(word[1], "error") if word else "info",
            "logger": "",
            "message": line[written.end() :] if written else line,
        }
