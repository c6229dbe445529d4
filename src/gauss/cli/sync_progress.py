"""Progress of a sync: a bar per stream on a terminal, a line per event elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gauss.cli.output import CommandOutput
from gauss.model.units import counted, human_bytes

Show = Callable[[dict[str, Any]], None]


@contextmanager
def shown_progress(output: CommandOutput, sync: str) -> Iterator[Show]:
    """A function that shows the events of a sync."""
    if output.json:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bars(output) as show:
            yield show
    else:
        yield lambda event: _line(output, sync, event)


def _line(output: CommandOutput, sync: str, event: dict[str, Any]) -> None:
    match event["event"]:
        case "start":
            output.note(f"{sync}: started ({event['run']})")
        case "spark":
            output.note(f"{sync}: on Spark: {event['why']}")
        case "retry":
            output.note(f"{sync}: {event['stream']}: {event['error']}; next attempt in {event['wait_s']} s")
        case "stream":
            rows = counted(event["records_written"], "row")
            output.note(f"{sync}: {event['stream']}: {event['status']}, {rows} written")


@contextmanager
def _bars(output: CommandOutput) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rows]}"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[note]}", style="dim"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=output.console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def task(stream: str) -> Any:
            if stream not in tasks:
                tasks[stream] = progress.add_task(stream, total=None, rows="", rate="", note="")
            return tasks[stream]

        def show(event: dict[str, Any]) -> None:
            match event["event"]:
                case "progress":
                    number = task(event["stream"])
                    seconds = max(progress.tasks[number].elapsed or 0.0, 0.1)
                    done = event["records_written"] or event["records_read"]
                    size = event["bytes_written"] or event["bytes_read"]
                    rate = f"{human_bytes(size / seconds)}/s" if size else ""
                    progress.update(number, completed=done, rows=counted(done, "row"), rate=rate)
                case "spark":
                    progress.console.print(f"on Spark: {event['why']}", style="dim")
                case "checkpoint":
                    progress.update(task(event["stream"]), note=f"checkpoint {event['id']}")
                case "retry":
                    progress.update(task(event["stream"]), note=f"{event['error']}; again in {event['wait_s']} s")
                case "stream":
                    done = event["records_written"]
                    progress.update(
                        task(event["stream"]), total=done or 1, completed=done or 1, rows=counted(done, "row"),
                        note=event["status"],
                    )  # fmt: skip

        yield show
