"""`gauss dlq ls|show|replay|discard`."""

from __future__ import annotations

import base64
import datetime
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption, as_json, visible
from gauss.cli.sync_letters import LetterChoice, of_run, refuse_both
from gauss.model.errors import ConfigError
from gauss.model.units import counted

WIDTH = 160
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Dead letters: records that could not be framed, decoded or stored, and rows that syncs could not move.",
)

Processor = Annotated[
    str | None,
    typer.Option("--processor", "-p", help="Only dead letters of this processor.", autocompletion=complete.processors),
]
Sync = Annotated[str | None, typer.Option("--sync", "-s", help="Only dead letters of this sync, also without a run.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="The pipeline of the syncs. Default: that of the run, or of this folder."),
]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Only dead letters with this reason code.")]


@app.command()
def ls(
    processor: Processor = None, sync: Sync = None, data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False
) -> None:
    """Count dead letters by reason, stage and processor or sync.

    Example: gauss dlq ls
    """
    output = CommandOutput(json=json)
    refuse_both(processor, sync)
    found: dict[str, Any] = {"groups": []}
    if sync is None:
        found = of_run(data_dir, lambda client: client.get("dlq", processor=processor), found)
    if processor is None:
        found["groups"] = [*_of_processors(found), *LetterChoice(data_dir, sync=sync).groups()]
    output.data(found)
    if not found["groups"]:
        output.line("no dead letters")
        return
    output.table(
        ["reason", "stage", "processor or sync", "count", "first", "last"],
        [
            [group["reason"], group["stage"], _owner(group), group["count"],
             _time(group["first_ts_ms"]), _time(group["last_ts_ms"])]
            for group in found["groups"]
        ],
    )  # fmt: skip
    output.note("print them with gauss dlq show, retry them with replay, remove them with discard")


@app.command()
def show(
    *,
    processor: Processor = None,
    sync: Sync = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to print, newest first.")] = 20,
    before: Annotated[int | None, typer.Option(help="Only dead letters older than this number.")] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Print dead letters with their reason, origin and bytes, newest first.

    Examples: gauss dlq show -n 5 · gauss dlq show --reason bad_json --json · gauss dlq show --sync people
    """
    output = CommandOutput(json=json)
    refuse_both(processor, sync)
    found: dict[str, Any] = {"letters": []}
    if sync is None:
        query = {"processor": processor, "reason": reason, "limit": limit, "before": before}
        found = of_run(data_dir, lambda client: client.get("dlq", "letters", **query), found)
    if processor is None and (sync is not None or before is None):  # numbers are those of the run, or of one sync
        more = LetterChoice(data_dir, sync=sync, reason=reason).newest(limit, before)
        found["letters"] = sorted([*found["letters"], *more], key=lambda letter: -letter["ts_ms"])[:limit]
    output.data(found)
    for letter in found["letters"]:
        _show_row(letter, output) if "sync" in letter else _show_record(letter, output)
    if not found["letters"]:
        output.line("no dead letters match")


@app.command()
def replay(
    numbers: Annotated[list[int] | None, typer.Argument(help="Only the dead letters with these numbers.")] = None,
    *,
    processor: Processor = None,
    sync: Sync = None,
    reason: Reason = None,
    all: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    file: File = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Send dead letters to the processor that rejected them; other readers do not see them again. Those of a sync are
    written by its destination. A record or row that is rejected again becomes the same dead letter with one more
    attempt.

    Examples: gauss dlq replay --processor enrich · gauss dlq replay 17 18 · gauss dlq replay --sync people
    """
    _refuse_nothing(numbers, processor, sync, reason, all=all)
    output = CommandOutput(json=json)
    found: dict[str, Any] = {"replayed": 0, "already": 0, "refused": 0, "refused_hint": ""}
    if sync is None:
        body = {"processor": processor, "reason": reason, "offsets": numbers or None}
        found = of_run(data_dir, lambda client: client.post("dlq", "replay", body=body), found)
    if sync is not None or (processor is None and not numbers):
        done = LetterChoice(data_dir, sync=sync, reason=reason, numbers=numbers).replay(file, output)
        found["returned"] = done["returned"]
        found["replayed"] += done["replayed"]
        found["refused"] += done["refused"]
        found["refused_hint"] = found.get("refused_hint") or done["refused_hint"]
    output.data(found)
    again = f", {found['returned']:,} rejected again" if found.get("returned") else ""
    output.line(
        f"{found['replayed']:,} replayed{again}, {found['already']:,} already replayed, {found['refused']:,} refused"
    )
    if found["refused"] and found.get("refused_hint"):
        output.note(str(found["refused_hint"]))


@app.command()
def discard(
    numbers: Annotated[list[int] | None, typer.Argument(help="Only the dead letters with these numbers.")] = None,
    *,
    processor: Processor = None,
    sync: Sync = None,
    reason: Reason = None,
    all: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Delete dead letters. The remaining ones of a sync are renumbered.

    Examples: gauss dlq discard --processor feed · gauss dlq discard --reason late --yes · gauss dlq discard 17 18
    """
    _refuse_nothing(numbers, processor, sync, reason, all=all)
    output = CommandOutput(json=json)
    with_run, with_syncs = sync is None, sync is not None or (processor is None and not numbers)
    choice = LetterChoice(data_dir, sync=sync, reason=reason, numbers=numbers) if with_syncs else None
    if not yes:
        groups: list[dict[str, Any]] = choice.groups() if choice is not None else []
        if with_run:
            groups += _of_processors(of_run(data_dir, lambda client: client.get("dlq", processor=processor), {}))
        count = sum(group["count"] for group in groups if reason in (None, group["reason"]))
        if not sys.stdin.isatty():
            raise ConfigError("discarding dead letters must be confirmed", hint="add --yes")
        shown = len(numbers) if numbers else count
        typer.confirm(f"Delete {counted(shown, 'dead letter')}? This cannot be undone.", abort=True)
    found: dict[str, Any] = {"discarded": 0}
    if with_run:
        body = {"processor": processor, "reason": reason, "offsets": numbers or None, "all": all}
        found = of_run(data_dir, lambda client: client.post("dlq", "discard", body=body), found)
    if choice is not None:
        found["discarded"] += choice.discard()
    output.data(found)
    output.line(f"{counted(found['discarded'], 'dead letter')} discarded")


def _refuse_nothing(
    numbers: list[int] | None, processor: str | None, sync: str | None, reason: str | None, *, all: bool
) -> None:
    """A command that changes something names what it changes."""
    if not (numbers or processor or sync or reason or all):
        raise ConfigError("no dead letters selected", hint="pass numbers, --processor, --sync, --reason, or --all")
    refuse_both(processor, sync)


def _of_processors(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The groups of a run's answer without those of syncs, which are read here, with or without a run."""
    return [group for group in found.get("groups", []) if not group.get("sync")]


def _owner(group: dict[str, Any]) -> str:
    return f"sync {group['sync']}" if group.get("sync") else str(group["processor"])


def _show_record(letter: dict[str, Any], output: CommandOutput) -> None:
    output.line(f"#{letter['dead_offset']}  {_time(letter['ts_ms'])}  {letter['processor']}", style="bold")
    output.line(f"    {letter['reason']} ({letter['stage']}{_again(letter)}): {letter['detail']}")
    if letter.get("topic"):
        output.line(f"    {_origin(letter)}")
    output.line(f"    {_preview(letter)}", style="dim")


def _show_row(letter: dict[str, Any], output: CommandOutput) -> None:
    output.line(f"#{letter['number']}  {_time(letter['ts_ms'])}  sync {letter['sync']}", style="bold")
    output.line(f"    {letter['reason']} ({letter['side']}{_again(letter)}): {letter['detail']}")
    output.line(f"    a row of {letter['stream']}, in run {letter['run']}")
    text = as_json(letter["row"])
    output.line(f"    {text if len(text) <= WIDTH else text[: WIDTH - 1] + '…'}", style="dim")


def _again(letter: dict[str, Any]) -> str:
    return f", refused {letter['attempts']} times" if letter["attempts"] > 1 else ""


def _time(ts_ms: int) -> str:
    return f"{datetime.datetime.fromtimestamp(ts_ms / 1000, datetime.UTC):%Y-%m-%d %H:%M:%S}"


def _origin(letter: dict[str, Any]) -> str:
    column = f", field {letter['column']}" if letter.get("column") else ""
    if letter["offset"] < 0:  # a row that a processor has made has no offset
        return f"a row for {letter['topic']}{column}"
    return f"from {letter['topic']} at {letter['offset']}{column}"


def _preview(letter: dict[str, Any], width: int = WIDTH) -> str:
    data = base64.b64decode(letter["data"])
    text = visible(data[: 4 * width].decode(errors="backslashreplace"))
    shown = text if len(text) <= width else text[: width - 1] + "…"
    return f"{shown}  ({letter.get('truncated') or len(data):,} bytes)"
