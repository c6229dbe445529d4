"""The tasks of a job while it runs: a live table on a terminal, a line per task elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gauss.cli.output import CommandOutput, visible

if TYPE_CHECKING:
    from rich.table import Table

Show = Callable[[dict[str, Any]], None]
_SIGNS = {"queued": "·", "running": "▸", "succeeded": "✓", "failed": "✗", "skipped": "-"}
_STYLES = {"running": "cyan", "succeeded": "green", "failed": "bold red"}


@contextmanager
def shown_tasks(output: CommandOutput, *, live: bool = True) -> Iterator[Show]:
    """A function that shows the events of a job."""
    if output.json or not live:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _table(output) as show:
            yield show
    else:
        yield lambda event: _line(output, event)


def _line(output: CommandOutput, event: dict[str, Any]) -> None:
    if event["type"] == "task" and event["task"]["status"] in ("succeeded", "failed"):
        task = event["task"]
        output.note(f"{_SIGNS[task['status']]} {task['title']}{_remark(task)}")


def _remark(task: dict[str, Any]) -> str:
    if task["cached"]:
        return " (cached)"
    return "" if task["duration_ms"] is None else f" {task['duration_ms'] / 1000:.2f} s"


@contextmanager
def _table(output: CommandOutput) -> Iterator[Show]:
    from rich.live import Live

    tasks: dict[int, dict[str, Any]] = {}
    last = [""]
    with Live(console=output.console(stderr=True), get_renderable=lambda: _drawn(tasks, last[0]), transient=False):

        def show(event: dict[str, Any]) -> None:
            if event["type"] == "task":
                tasks[event["task"]["number"]] = event["task"]
            elif event["type"] == "log":
                last[0] = str(event["message"])

        yield show
        last[0] = ""


def _drawn(tasks: dict[int, dict[str, Any]], last: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    drawn = Table.grid(padding=(0, 1))
    for number in sorted(tasks):
        task = tasks[number]
        style = _STYLES.get(task["status"], "dim")
        running = task["status"] == "running" and task["started_ms"] is not None
        seconds = f"{max(time.time() - task['started_ms'] / 1000, 0):.1f} s" if running else _remark(task).strip()
        drawn.add_row(
            Text(_SIGNS.get(task["status"], "·"), style),
            Text(visible(task["title"])),
            Text(seconds, "dim"),
        )
    done = sum(task["status"] == "succeeded" for task in tasks.values())
    drawn.add_row("", Text(f"{done} of {len(tasks)} tasks  {visible(last)[:80]}", "dim"), "")
    return drawn
