from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli.output import JsonOption, Output
from gauss.model.units import human_bytes

if TYPE_CHECKING:
    from gauss.stream.verify import Verified

DirectoryArgument = Annotated[
    Path, typer.Argument(help="A data directory, the folder of a file topic, or a backup of one.")
]


def command(directory: DirectoryArgument = Path(".gauss"), json: JsonOption = False) -> None:
    """Check a data directory that no run has open: the commit journal, and every record of every file topic.

    Reads each file once and changes nothing. Ends with 0 when all is as it was written, with 1 when something is
    damaged: gauss repair shows the choices.

    Examples: gauss verify · gauss verify /backup/quotes · gauss verify .gauss --json | jq '.findings'
    """
    output = Output(json=json)
    found = verified(output, directory)
    output.data(found.to_dict())
    show(output, found)
    if found.findings:
        output.line()
        output.line(f"gauss repair {directory} shows the choices")
        raise typer.Exit(1)


def verified(output: Output, directory: Path) -> Verified:
    """Checks a directory, with a progress bar on a terminal."""
    from gauss.stream.verify import check_unused, folders_of, verify

    check_unused(directory)
    total = sum(folder.offline.size(folder.path) for folder in folders_of(directory))
    with _progress(output, total) as read:
        return verify(directory, read)


def show(output: Output, found: Verified) -> None:
    """A table of the findings, and a line of what was checked."""
    if found.findings:
        output.table(
            ["#", "topic", "file", "records", "first", "what"],
            [
                [
                    number,
                    finding.topic or "–",
                    str(finding.path),
                    finding.records,
                    str(finding.first) if finding.stop else "–",
                    finding.what,
                ]
                for number, finding in enumerate(found.findings, 1)
            ],
        )
    records = sum(int(str(topic["records"])) for topic in found.topics)
    size = human_bytes(sum(int(str(topic["bytes"])) for topic in found.topics))
    count = f"{len(found.findings)} found damaged" if found.findings else "nothing is damaged"
    topics = "1 topic" if len(found.topics) == 1 else f"{len(found.topics)} topics"
    output.line(f"{topics}, {records:,} records, {size} read: {count}")


@contextmanager
def _progress(output: Output, total: int) -> Iterator[Callable[[int], None]]:
    """Told of bytes as they are read; shown on stderr where that is a terminal."""
    if output.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=output.console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total or None)
        yield lambda size: progress.advance(task, size)
