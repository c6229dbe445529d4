"""Runs one child, and ends it with all its descendants when the parent dies.

`python -I -S guard.py CONTROL_FD LOG COMMAND…`, started as the leader of a session of its own. It imports nothing of
Gauss and little else, and so starts in some 20 ms. From the control pipe it reads `t` (ask the child to stop) and `k`
(kill everything now); the end of the pipe means that the parent is gone. When the child or the parent ends, every
process of the session is ended: by session id, since Spark's Python daemon leaves its process group and outlives a
killed JVM. Its exit code is that of the child, 128 + N if a signal ended it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TERM_SECONDS = 5.0
LOG_BYTES = 16 << 20
LOG_KEEP = 3
_CHECK_SECONDS = 2.0
_AGAIN_SECONDS = 0.1


def session_members(session: int) -> list[int]:
    """Living processes of a session except its leader."""
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 (pathlib would double the start-up time)
        if not entry.isdigit() or int(entry) == session:
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stat:  # noqa: PTH123
                # After the last ")": the name of the command may contain spaces and parentheses.
                fields = stat.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
            found.append(int(entry))
    return found


def send(pids: list[int], number: int) -> None:
    """Sends a signal to each process that still lives."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # it has ended, or is another user's


def end_session(session: int, term_seconds: float = TERM_SECONDS) -> None:
    """Sends SIGTERM to every member, then SIGKILL to those that are left or new."""
    if term_seconds > 0:
        send(session_members(session), signal.SIGTERM)
        deadline = time.monotonic() + term_seconds
        while session_members(session) and time.monotonic() < deadline:
            time.sleep(0.02)
    deadline = time.monotonic() + TERM_SECONDS
    while (left := session_members(session)) and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(0.01)


def surely_end_session(session: int, term_seconds: float = TERM_SECONDS) -> None:
    """Like `end_session`, retried while the system has no descriptor left to list the processes."""
    while True:
        try:
            end_session(session, term_seconds)
            return
        except OSError:
            time.sleep(_AGAIN_SECONDS)


def rotate(path: str, limit: int = LOG_BYTES, keep: int = LOG_KEEP) -> None:
    """Rotates a log that is too large by copy and truncate, since its writers keep the file open."""
    try:
        if os.stat(path).st_size < limit:  # noqa: PTH116
            return
        for number in range(keep - 1, 0, -1):
            if os.path.exists(f"{path}.{number}"):  # noqa: PTH110
                os.replace(f"{path}.{number}", f"{path}.{number + 1}")  # noqa: PTH105
        source = os.open(path, os.O_RDWR)
        target = os.open(f"{path}.1", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        while os.sendfile(target, source, None, 1 << 20):
            pass
        os.ftruncate(source, 0)
        os.close(source)
        os.close(target)
    except OSError:
        pass  # a full disk must not end the child


def _spawn(command: list[str], log: str, kept: int) -> int:
    """Starts the child with its output in the log; descriptors for it are inherited, then closed here."""
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full disk: run it without a log
        output = os.open(os.devnull, os.O_WRONLY)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    os.close(output)
    ready = int(os.environ.get("GAUSS_READY_FD", "-1"))
    if ready not in (-1, kept):
        os.close(ready)  # else the parent would not see the child close it
    return pid


def main(argv: list[str]) -> int:
    control, log, command = int(argv[0]), argv[1], argv[2:]
    os.set_inheritable(control, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    child = _spawn(command, log, control)

    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    term_seconds, status = TERM_SECONDS, None
    while status is None:
        events = poll.poll(_CHECK_SECONDS * 1000)
        rotate(log)
        for descriptor, _ in events:
            heard = os.read(descriptor, 64)
            if descriptor == woken:
                if set(heard) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                    surely_end_session(os.getpid())
            elif b"k" in heard:
                term_seconds = 0.0
                surely_end_session(os.getpid(), term_seconds)
            elif not heard:
                surely_end_session(os.getpid())
                poll.unregister(control)
            else:
                send([child], signal.SIGTERM)
        while status is None:  # reap the child, and orphans if this is the first process of a container
            try:
                pid, code = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child:
                status = os.waitstatus_to_exitcode(code)
    surely_end_session(os.getpid(), term_seconds)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
