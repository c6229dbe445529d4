"""`gauss readers ls|seek|drop`."""

from __future__ import annotations

from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption, RunClient
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.topics import show_readers
from gauss.model.units import counted

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="List, move or drop the registered readers of topics.",
)

Topic = Annotated[str, typer.Argument(help="The topic.", autocompletion=complete.topics)]
Reader = Annotated[str, typer.Argument(help="The reader's name, see `gauss readers ls`.")]


@app.command()
def ls(
    topic: Annotated[
        str | None, typer.Argument(help="Only the readers of this topic.", autocompletion=complete.topics)
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """List readers with their positions and lag.

    Example: gauss readers ls quotes.raw
    """
    output = CommandOutput(json=json)
    found = RunClient(data_dir).get("readers", topic=topic)
    output.data(found)
    if found["readers"]:
        show_readers(output, found["readers"])
    else:
        output.line("no registered readers")


@app.command(context_settings={"ignore_unknown_options": True})
def seek(
    topic: Topic,
    reader: Reader,
    to: Annotated[str, typer.Argument(help="earliest, end, an offset, or -N for N records before the end.")],
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Move a reader. Records in between are read again, or skipped.

    Examples: gauss readers seek quotes.raw archiver earliest · gauss readers seek quotes.raw archiver -1000
    """
    output = CommandOutput(json=json)
    found = RunClient(data_dir).post("readers", topic, reader, "seek", body={"to": to})
    output.data(found)
    output.line(
        f"{reader} on {topic} is now at offset {found['position']:,}, {counted(found['behind'], 'record')} behind"
    )


@app.command()
def drop(topic: Topic, reader: Reader, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Drop a reader: the topic no longer retains records for it.

    Example: gauss readers drop quotes.raw old-archiver
    """
    output = CommandOutput(json=json)
    found = RunClient(data_dir).delete("readers", topic, reader)
    output.data(found)
    output.line(f"dropped {reader} on {topic}; it was at offset {found['dropped']['position']:,}")
