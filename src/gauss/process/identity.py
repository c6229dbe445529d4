"""Processes told apart: pids are reused, so a pid counts only with its start time and the boot it belongs to."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from gauss.process.guard import TERM_SECONDS, end_session, send, session_members

GROUP_VARIABLE = "GAUSS_RUN"
"""In the environment of every child and grandchild: the identity of its process group (`group.py`)."""


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_space() -> str:
    """What pids belong to: the boot and, as containers have their own, the pid namespace."""
    return f"{boot_id()} {Path('/proc/self/ns/pid').stat().st_ino}"


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which a process started; None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_name(pid: int) -> str:
    """The name of the program, such as `java`; for Python the module after `-m`."""
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


def _in_group(pid: int, identity: str) -> bool:
    try:
        return f"{GROUP_VARIABLE}={identity}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def guarded(record: dict[str, Any]) -> bool:
    """Whether a guard of a recorded group lives: it ends the rest of its tree."""
    here = record.get("boot_id") == boot_id()
    return here and any(alive(int(each["pid"]), int(each["start_time"])) for each in record.get("processes", []))


def end_leftovers(record: dict[str, Any]) -> list[int]:
    """Ends what is left of a recorded group and returns the pids. `record` is what `ProcessGroup.record` wrote.

    A guard is known by pid, start time and boot id. The processes that a killed guard leaves are those of its session
    that have the group's identity in their environment; an unrelated process with a reused pid does not.
    """
    if record.get("boot_id") != boot_id():
        return []
    ended = []
    for entry in record.get("processes", []):
        pid, started = int(entry["pid"]), int(entry["start_time"])
        members = [member for member in session_members(pid) if _in_group(member, str(record.get("run")))]
        leader = alive(pid, started)
        if leader and not _in_group(pid, str(record.get("run"))):
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
