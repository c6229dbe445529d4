from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauss.cli.output import CommandOutput, JsonOption
from gauss.model.units import human_bytes

if TYPE_CHECKING:
    from gauss.stream.verify import Verified

DirectoryArgument = Annotated[
    Path, typer.Argument(help="A data directory, the folder of a file topic, or a backup of a topic.")
]


def command(directory: DirectoryArgument = Path(".gauss"), json: JsonOption = False) -> None:
    """Verify the checksums of a data directory that no run is using: the commit journal and all file topics.

    Reads each file once and changes nothing. Exits with 0 if nothing is damaged, otherwise with 1: gauss repair shows
    the possible repairs.

    Examples: gauss verify · gauss verify /backup/quotes · gauss verify .gauss --json | jq '.findings'
    """
    output = CommandOutput(json=json)
    found = verified(output, directory)
    output.data(found.to_dict())
    show(output, found)
    if found.findings:
        output.line()
        output.line(f"gauss repair {directory} shows the possible repairs")
        raise typer.Exit(1)


def verified(output: CommandOutput, directory: Path) -> Verified:
    """Verifies a directory, with a progress bar on a terminal."""
    from gauss.stream.verify import check_unused, folders_of, verify

    check_unused(directory)
    total = sum(folder.offline.size(folder.path) for folder in folders_of(directory))
    with _progress(output, total) as read:
        return verify(directory, read)


def show(output: CommandOutput, found: Verified) -> None:
    """Prints the findings as a table, and a summary."""
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
def _progress(output: CommandOutput, total: int) -> Iterator[Callable[[int], None]]:
    """Progress bar on stderr, if that is a terminal. Yields the function that counts bytes."""
    if output.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=output.console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total or None)
        yield lambda size: progress.advance(task, size)
