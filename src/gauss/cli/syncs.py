"""`gauss syncs`: the runs and cursors of syncs."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauss.cli import complete
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption, as_json
from gauss.config.check import check_or_raise
from gauss.config.syncs import SyncDef
from gauss.model.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from gauss.connect.state import StateStore

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Runs and cursors of syncs.")
state = typer.Typer(no_args_is_help=True, add_completion=False, help="The cursors of streams.")
app.add_typer(state, name="state")

FileOption = Annotated[
    Path, typer.Option("--file", "-f", help="A pipeline, or a folder with one.", autocompletion=complete.files)
]
NameArgument = Annotated[str, typer.Argument(help="A sync of the pipeline.")]
StreamArgument = Annotated[str, typer.Argument(help="A stream of the sync.")]


@app.command()
def ls(file: FileOption = Path(), data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False) -> None:
    """List the syncs of a pipeline with their last run.

    Example: gauss syncs ls
    """
    from gauss.connect.runs import list_runs

    output = CommandOutput(json=json)
    found: list[tuple[SyncDef, dict[str, Any] | None]] = []
    for sync in _syncs(file, output):
        store = _store(sync, data_dir)
        found.append((sync, next(iter(list_runs(store, sync.name, 1)), None)))
        store.close()
    output.data({"syncs": [{"sync": sync.name, "streams": _streams(sync), "last": last} for sync, last in found]})
    rows = [[sync.name, ", ".join(_streams(sync)), *_shown(last)] for sync, last in found]
    output.table(["sync", "streams", "last run", "status", "detail"], rows, spare=["detail"])


def _streams(sync: SyncDef) -> list[str]:
    return ["*"] if sync.streams == "*" else [stream.name for stream in sync.streams]


def _shown(run: dict[str, Any] | None) -> list[str]:
    return ["never", "", ""] if run is None else [_time(run["started_ms"]), run["status"], run["detail"]]


@app.command()
def history(
    name: NameArgument, file: FileOption = Path(), data_dir: DataDirOption = DEFAULT_DATA_DIR, json: JsonOption = False
) -> None:
    """Show the last runs of a sync, the newest first.

    Example: gauss syncs history people
    """
    from gauss.connect.runs import list_runs

    output = CommandOutput(json=json)
    store = _store(_sync(file, name, output), data_dir)
    runs = list_runs(store, name)
    store.close()
    output.data({"runs": runs})
    if not runs:
        output.line("it has never run")
        return
    output.table(
        ["run", "started", "seconds", "status", "rows", "process", "host", "detail"],
        [
            [
                row["generation"],
                _time(row["started_ms"]),
                _seconds(row),
                row["status"],
                sum(each["rows"] for each in row["streams"]) if row["streams"] else "",
                row["pid"],
                row["host"],
                row["detail"],
            ]
            for row in runs
        ],
        spare=["host", "process", "detail"],
    )


@state.command("get")
def get(
    name: NameArgument,
    stream: Annotated[str, typer.Argument(help="A stream of the sync. Default: all.")] = "",
    file: FileOption = Path(),
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Show the cursors of a sync.

    Example: gauss syncs state get people
    """
    output = CommandOutput(json=json)
    store = _store(_sync(file, name, output), data_dir)
    found = store.cursors(name)
    store.close()
    if stream and stream not in found:
        raise NotFound(
            f'stream "{stream}" of sync "{name}" has no cursor', hint=f"with one: {', '.join(found) or 'none'}"
        )
    rows = {each: cursor for each, cursor in found.items() if not stream or each == stream}
    output.data(
        {
            "streams": [
                {"stream": each, "cursor": cursor.json(), "checkpoint": cursor.checkpoint, "at_ms": cursor.at_ms}
                for each, cursor in rows.items()
            ]
        }
    )
    if not rows:
        output.line("no cursors: the next run reads everything")
        return
    output.table(
        ["stream", "cursor", "checkpoint", "stored"],
        [[each, as_json(cursor.json()), cursor.checkpoint, _time(cursor.at_ms)] for each, cursor in rows.items()],
    )


@state.command("set")
def set_(
    name: NameArgument,
    stream: StreamArgument,
    cursor: Annotated[str, typer.Argument(help="""The cursor as JSON, such as '{"int64": 5}'.""")],
    *,
    file: FileOption = Path(),
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Set the cursor of a stream: the next run reads what is behind it.

    Example: gauss syncs state set people public.people '{"int64": 41000}'
    """
    import msgspec

    from gauss.contracts.connector.cursor import CursorValue
    from gauss.contracts.connector.json_form import decode

    try:
        value = decode(cursor.encode(), CursorValue)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"the cursor can't be read: {error}", hint="""for example '{"int64": 5}'""") from error
    output = CommandOutput(json=json)
    _edit(_sync(file, name, output), stream, value, data_dir, output)


@state.command()
def reset(
    name: NameArgument,
    stream: StreamArgument,
    file: FileOption = Path(),
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    json: JsonOption = False,
) -> None:
    """Forget the cursor of a stream: the next run reads everything.

    Example: gauss syncs state reset people public.people
    """
    output = CommandOutput(json=json)
    _edit(_sync(file, name, output), stream, None, data_dir, output)


def _edit(sync: SyncDef, stream: str, value: Any, data_dir: Path, output: CommandOutput) -> None:
    from gauss.connect.cursor_edit import set_cursor

    store = _store(sync, data_dir)
    try:
        cursor = set_cursor(store, sync, stream, value)
    finally:
        store.close()
    output.data({"sync": sync.name, "stream": stream, "cursor": cursor.json()})
    output.line(
        f"{stream}: the next run reads {'everything' if value is None else 'what is behind ' + as_json(cursor.json())}"
    )


def _syncs(file: Path, output: CommandOutput) -> list[SyncDef]:
    """The syncs of a pipeline; from here on the output hides its secrets."""
    pipeline, checked = check_or_raise(file)
    output.redactor = checked.redactor
    return pipeline.syncs


def _sync(file: Path, name: str, output: CommandOutput) -> SyncDef:
    syncs = _syncs(file, output)
    found = next((sync for sync in syncs if sync.name == name), None)
    if found is None:
        known = ", ".join(sync.name for sync in syncs) or "none"
        raise NotFound(f'no sync "{name}"', hint=f"syncs of this pipeline: {known}")
    return found


def _store(sync: SyncDef, data_dir: Path) -> StateStore:
    from gauss.connect.state import StateStore

    return StateStore(sync.state or data_dir.absolute() / "connect" / "state.db")


def _time(ms: int) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _seconds(row: dict[str, Any]) -> str:
    return "" if row["ended_ms"] is None else f"{(row['ended_ms'] - row['started_ms']) / 1000:.1f}"
