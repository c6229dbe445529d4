"""Read locks on the files that steps depend on, and the proof that they have not changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from gauss.dbstates.errors import InputChanged, InputLocked
from gauss.dbstates.planning.plan import Input

SETTLED_NS = 50_000_000
"""A file whose last change is older than this when planning begins was read by the planner as it is."""


class LockedInputs:
    """Shared locks, taken without waiting; held until the end of the block."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, tuple[int, ...]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for descriptor, _ in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def take(self, inputs: Iterable[Input], planned_ns: int) -> None:
        """Locks files that were planned after a time (Unix ns), and checks that they are still what was planned."""
        for each in inputs:
            if each.path in self._held:
                continue
            try:
                descriptor = os.open(each.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise InputChanged(f"{each.path} can't be read: {error.strerror}", hint="run it again") from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise InputLocked(
                    f"{each.path} is locked by another process, which may be writing it",
                    hint="wait for that process, then run it again",
                ) from None
            self._held[each.path] = (descriptor, _identity(os.fstat(descriptor)))
            if os.fstat(descriptor).st_ctime_ns > planned_ns - SETTLED_NS and _hash(descriptor) != each.sha256:
                raise InputChanged(f"{each.path} changed while it was planned", hint="run it again")

    def check(self, inputs: Iterable[Input]) -> None:
        """Raises InputChanged if a file is not what was locked."""
        for each in inputs:
            descriptor, identity = self._held[each.path]
            try:
                now = _identity(os.stat(each.path))  # noqa: PTH116
                same = now[:-1] == identity[:-1] == _identity(os.fstat(descriptor))[:-1]
                # A change that keeps size and time of modification still has its own time; so has a mere chmod.
                same = same and (now == identity or _hash(descriptor) == each.sha256)
            except OSError:
                same = False
            if not same:
                raise InputChanged(f"{each.path} changed while it was used", hint="run it again")


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def _hash(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()
