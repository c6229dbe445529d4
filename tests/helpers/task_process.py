"""A standing task in its own process, which kills or stops itself, or waits for its parent, at one point of its loop.

    python -m helpers.task_process PLAN ATTEMPT POINT ACTION

The points: `granted`, `read`, `staged` (everything but the publish is sent), `published` (the reply has arrived and is
not read yet). The actions: `kill`, `stop`, `wait`, `none`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

POINTS = ("granted", "read", "staged", "published")


class TaskProcess:
    """A task process, as its parent sees it."""

    def __init__(self, plan: Path, attempt: int, point: str = "none", action: str = "none") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(plan), str(attempt), point, action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def killed(self, seconds: float = 60) -> bool:
        """Whether the process has killed itself."""
        return self._process.wait(seconds) == -signal.SIGKILL

    def ended(self, seconds: float = 60) -> bool:
        """Whether the process has exited."""
        return self._process.wait(seconds) == 0

    def has_stopped(self) -> bool:
        return " T " in (Path("/proc") / str(self._process.pid) / "stat").read_text().rpartition(")")[2][:3]

    def go_on(self) -> None:
        """Resumes a process that has stopped itself."""
        self._process.send_signal(signal.SIGCONT)

    def await_point(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"there\n"

    def say(self) -> None:
        """Lets a waiting process continue."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def main() -> None:
    from gauss.spark.standing import TaskPlace
    from gauss.stream.driver.tasks import locations, outbox
    from gauss.stream.driver.tasks.standing_loop import EpochLoop, make_loop

    plan, attempt, point, action = sys.argv[1:]
    outbox.INLINE_BYTES = -1  # so that stages are sent before the publish
    if int(attempt) % 2:
        locations.LEAST_PASSED = 1 << 30  # and records that pass unchanged are sent as bytes
    loop = make_loop(Path(plan).read_bytes(), TaskPlace(0, int(attempt)))
    assert isinstance(loop, EpochLoop)
    done: list[str] = []

    def at(here: str) -> None:
        if here != point or done:
            return
        done.append(here)
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == "wait":
            print("there", flush=True)
            sys.stdin.readline()

    client = loop.client
    client.next = _around(client.next, after=lambda found: at("granted") if found.grants else None)  # type: ignore[method-assign]
    client.read = _each(client.read, lambda: at("read"))  # type: ignore[method-assign]
    client.publish_all = _around(  # type: ignore[method-assign]
        client.publish_all, before=lambda: at("staged"), after=lambda _: at("published")
    )
    while loop.step():
        pass
    loop.close()


def _around(
    call: Callable[..., Any], before: Callable[[], None] = lambda: None, after: Callable[[Any], None] = lambda _: None
) -> Callable[..., Any]:
    @wraps(call)
    def wrapped(*args: Any) -> Any:
        before()
        found = call(*args)
        after(found)
        return found

    return wrapped


def _each(call: Callable[..., Any], after: Callable[[], None]) -> Callable[..., Any]:
    @wraps(call)
    def wrapped(*args: Any) -> Any:
        yield from call(*args)
        after()

    return wrapped


if __name__ == "__main__":
    main()
