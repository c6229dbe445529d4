"""Who is who among processes: a pid counts only with its start time and the boot it belongs to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from gauss.stream.control.guard import TERM_SECONDS, end_session, send, session_members

RUN_VARIABLE = "GAUSS_RUN"
"""In the environment of every child and grandchild: the identity of the run that started it."""


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which a process started; None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_name(pid: int) -> str:
    """What runs: `java`, or for Python the module after `-m`."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "ended"
    if "-m" in words[1:-1]:
        return words[words.index("-m", 1) + 1]
    return Path(words[0]).name or "?"


def process_age() -> float:
    """Seconds since this process was started, the interpreter's own start-up included."""
    started = start_time(os.getpid()) or 0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def alive(pid: int, started: int) -> bool:
    return start_time(pid) == started


def _of_run(pid: int, run: str) -> bool:
    try:
        return f"{RUN_VARIABLE}={run}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def guarded(record: dict[str, Any]) -> bool:
    """Whether a guard of a recorded run lives, which ends what is left of it."""
    here = record.get("boot_id") == boot_id()
    return here and any(alive(int(each["pid"]), int(each["start_time"])) for each in record.get("processes", []))


def end_leftovers(record: dict[str, Any]) -> list[int]:
    """Ends what is left of a recorded run; returns the pids. `record` is what `processes.json` held.

    A guard is known by pid, start time and boot id. What it left behind, if it was killed itself, is of its
    session and carries the run's identity in its environment; a process that only has the same number does not.
    """
    if record.get("boot_id") != boot_id():
        return []
    ended = []
    for entry in record.get("processes", []):
        pid, started = int(entry["pid"]), int(entry["start_time"])
        members = [member for member in session_members(pid) if _of_run(member, str(record.get("run")))]
        leader = alive(pid, started)
        if leader and not _of_run(pid, str(record.get("run"))):
            continue
        if members:
            end_session(pid, TERM_SECONDS)
        if leader and alive(pid, started):
            send([pid], 9)
        if members or leader:
            ended += [*members, *([pid] if leader else [])]
    deadline = time.monotonic() + 2.0
    while any(start_time(pid) is not None for pid in ended) and time.monotonic() < deadline:
        time.sleep(0.01)
    return ended
