"""`gauss dlq ls|show|replay|discard`."""

from __future__ import annotations

import base64
import datetime
import sys
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, Client, DataDirOption
from gauss.cli.output import JsonOption, Output, visible
from gauss.model.errors import ConfigError
from gauss.model.units import counted

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Dead letters: records that could not be framed, decoded or stored.",
)

Processor = Annotated[
    str | None,
    typer.Option("--processor", "-p", help="Only those of this processor.", autocompletion=complete.processors),
]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Only those with this reason code.")]


@app.command()
def ls(processor: Processor = None, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """Counts by reason, stage and processor.

    Example: gauss dlq ls
    """
    output = Output(json=json)
    found = Client(data_dir).get("dlq", processor=processor)
    output.data(found)
    if not found["groups"]:
        output.line("no dead letters")
        return
    output.table(
        ["reason", "stage", "processor", "count", "first", "last"],
        [
            [group["reason"], group["stage"], group["processor"], group["count"],
             _time(group["first_ts_ms"]), _time(group["last_ts_ms"])]
            for group in found["groups"]
        ],
    )  # fmt: skip
    output.note("gauss dlq show prints them, replay gives them to their processor again, discard removes them")


@app.command()
def show(
    *,
    processor: Processor = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    before: Annotated[int | None, typer.Option(help="Only older ones than this dead letter's number.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Dead letters with their reason, origin and bytes, newest first.

    Examples: gauss dlq show -n 5 · gauss dlq show --reason bad_json --json
    """
    output = Output(json=json)
    query = {"processor": processor, "reason": reason, "limit": limit, "before": before}
    found = Client(data_dir).get("dlq", "letters", **query)
    output.data(found)
    for letter in found["letters"]:
        output.line(f"#{letter['dead_offset']}  {_time(letter['ts_ms'])}  {letter['processor']}", style="bold")
        again = f", refused {letter['attempts']} times" if letter["attempts"] > 1 else ""
        output.line(f"    {letter['reason']} ({letter['stage']}{again}): {letter['detail']}")
        if letter.get("topic"):
            output.line(f"    {_origin(letter)}")
        output.line(f"    {_preview(letter)}", style="dim")
    if not found["letters"]:
        output.line("no dead letters match")


@app.command()
def replay(
    numbers: Annotated[list[int] | None, typer.Argument(help="Only the dead letters with these numbers.")] = None,
    *,
    processor: Processor = None,
    reason: Reason = None,
    all: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Gives dead letters to the processor that refused them; other readers see nothing twice. A letter that is still
    refused comes back, with its attempts counted.

    Examples: gauss dlq replay --processor enrich · gauss dlq replay 17 18 · gauss dlq replay --all
    """
    if not (numbers or processor or reason or all):
        raise ConfigError(
            "which dead letters? none were named", hint="give numbers, --processor, --reason, or --all for every one"
        )
    output = Output(json=json)
    body = {"processor": processor, "reason": reason, "offsets": numbers or None}
    found = Client(data_dir).post("dlq", "replay", body=body)
    output.data(found)
    output.line(f"{found['replayed']:,} replayed, {found['already']:,} had been already, {found['refused']:,} refused")
    if found["refused"] and found.get("refused_hint"):
        output.note(str(found["refused_hint"]))


@app.command()
def discard(
    numbers: Annotated[list[int] | None, typer.Argument(help="Only the dead letters with these numbers.")] = None,
    *,
    processor: Processor = None,
    reason: Reason = None,
    all: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Removes dead letters for good. The others get new numbers.

    Examples: gauss dlq discard --processor feed · gauss dlq discard --reason late --yes · gauss dlq discard 17 18
    """
    if not (numbers or processor or reason or all):
        raise ConfigError(
            "which dead letters? none were named", hint="give numbers, --processor, --reason, or --all for every one"
        )
    output = Output(json=json)
    client = Client(data_dir)
    if not yes:
        groups = client.get("dlq", processor=processor)["groups"]
        count = len(numbers) if numbers else sum(g["count"] for g in groups if reason in (None, g["reason"]))
        if not sys.stdin.isatty():
            raise ConfigError("discarding dead letters must be confirmed", hint="add --yes")
        typer.confirm(f"Remove {counted(count, 'dead letter')} for good?", abort=True)
    body = {"processor": processor, "reason": reason, "offsets": numbers or None, "all": all}
    found = client.post("dlq", "discard", body=body)
    output.data(found)
    output.line(f"{counted(found['discarded'], 'dead letter')} discarded")


def _time(ts_ms: int) -> str:
    return f"{datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S}"


def _origin(letter: dict[str, Any]) -> str:
    column = f", field {letter['column']}" if letter.get("column") else ""
    if letter["offset"] < 0:  # what a processor made has no place in a topic yet
        return f"a row for {letter['topic']}{column}"
    return f"from {letter['topic']} at {letter['offset']}{column}"


def _preview(letter: dict[str, Any], width: int = 160) -> str:
    data = base64.b64decode(letter["data"])
    text = visible(data[: 4 * width].decode(errors="backslashreplace"))
    shown = text if len(text) <= width else text[: width - 1] + "…"
    return f"{shown}  ({letter.get('truncated') or len(data):,} bytes)"
