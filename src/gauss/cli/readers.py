"""`gauss readers ls|seek|drop`."""

from __future__ import annotations

from typing import Annotated

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, Client, DataDirOption
from gauss.cli.output import JsonOption, Output
from gauss.cli.topics import show_readers
from gauss.model.units import counted

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="The registered readers of topics: where they are, and moving them.",
)

Topic = Annotated[str, typer.Argument(help="The topic that is read.", autocompletion=complete.topics)]
Reader = Annotated[str, typer.Argument(help="The reader, as `gauss readers ls` names it.")]


@app.command()
def ls(
    topic: Annotated[
        str | None, typer.Argument(help="Only the readers of this topic.", autocompletion=complete.topics)
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Readers, their positions and how far they are behind.

    Example: gauss readers ls quotes.raw
    """
    output = Output(json=json)
    found = Client(data_dir).get("readers", topic=topic)
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
    """Moves a reader; it reads again, or leaves out, what lies between.

    Examples: gauss readers seek quotes.raw archiver earliest · gauss readers seek quotes.raw archiver -1000
    """
    output = Output(json=json)
    found = Client(data_dir).post("readers", topic, reader, "seek", body={"to": to})
    output.data(found)
    output.line(f"{reader} on {topic} now stands at {found['position']:,}, {counted(found['behind'], 'record')} behind")


@app.command()
def drop(topic: Topic, reader: Reader, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Forgets a reader: the topic no longer keeps records for it.

    Example: gauss readers drop quotes.raw old-archiver
    """
    output = Output(json=json)
    found = Client(data_dir).delete("readers", topic, reader)
    output.data(found)
    output.line(f"{reader} on {topic} is dropped; it stood at {found['dropped']['position']:,}")
