"""`gauss sync`: runs the syncs of a pipeline."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gauss.cli import complete
from gauss.cli.arguments import file_and_name
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption
from gauss.cli.sync_progress import shown_progress
from gauss.config.check import check_or_raise
from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.model.errors import ConfigError, GaussError
from gauss.model.paths import DataDir
from gauss.model.units import counted, human_bytes

if TYPE_CHECKING:
    from gauss.connect.sync import Sync, SyncResult

FAILED = 3


def command(
    file: Annotated[
        Path, typer.Argument(help="A pipeline, or a folder with a gauss.toml.", autocompletion=complete.files)
    ] = Path(),
    name: Annotated[str, typer.Argument(help="A sync of the pipeline. Default: all, one after the other.")] = "",
    *,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show streams and DDL statements; change nothing.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Run in this process, also with many rows; not on Spark.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Move streams from a source to a destination, as the syncs of a pipeline say.

    A sync resumes where the last run ended. Ctrl-C ends it after what has been read is written; a second one at once.

    Examples: gauss sync · gauss sync pipeline.toml people --dry-run
    """
    output = CommandOutput(json=json)
    file, name = file_and_name(file, name)
    pipeline, checked = check_or_raise(file)
    output.redactor = checked.redactor
    if not pipeline.syncs:
        raise ConfigError(f"{checked.file} has no [[syncs]]", hint="see: gauss docs connectors")
    chosen = [sync for sync in pipeline.syncs if not name or sync.name == name]
    if not chosen:
        known = ", ".join(sync.name for sync in pipeline.syncs)
        raise ConfigError(f'no sync "{name}"', hint=f"syncs of this pipeline: {known}")
    run = _dry_run if dry_run else _run
    where = _Where(checked.base_dir, data_dir.absolute(), pipeline.spark, local)
    results = [run(sync, where, output) for sync in chosen]
    if not all(results):
        raise typer.Exit(FAILED)


class _Where(NamedTuple):
    """Where syncs run."""

    base_dir: Path
    data_dir: Path
    spark: SparkSection
    local: bool

    def make(self, sync: SyncDef, emit: Any) -> Sync:
        from gauss.connect.sync import Sync

        return Sync(sync, self.base_dir, self.data_dir, emit, spark=self.spark, local=self.local)


def _run(definition: SyncDef, where: _Where, output: CommandOutput) -> bool:
    """Runs a sync; returns whether it succeeded."""
    from gauss.connect.embedded_sides import embedded_servers

    with embedded_servers(definition, DataDir(where.data_dir)) as sync, shown_progress(output, sync.name) as progress:

        def emit(event: dict[str, Any]) -> None:
            output.event(event)
            progress(event)

        made = where.make(sync, emit)
        try:
            with _Stops(made, output):
                result = made.run()
        except GaussError as error:
            output.event({"event": "error", "error": error.to_dict()})
            output.event({"event": "result", "sync": sync.name, "status": "failed", "streams": []})
            if not output.json:
                raise
            return False
    _summary(sync.name, result, output)
    return result.status != "failed"


def _summary(name: str, result: SyncResult, output: CommandOutput) -> None:
    streams = [{"stream": each.stream, "status": each.status} for each in result.streams]
    if result.error is not None and not result.streams:
        output.event({"event": "error", "error": result.error.to_dict()})
    output.event({"event": "result", "sync": name, "status": result.status, "streams": streams})
    output.table(
        ["stream", "status", "read", "written", "size", "seconds", "dead letters"],
        [
            [
                each.stream,
                each.status,
                each.read.records_read,
                each.write.records_written,
                human_bytes(each.write.bytes_written),
                f"{each.seconds:.1f}",
                each.letters,
            ]
            for each in result.streams
        ],
        spare=["size", "seconds"],
    )
    for each in result.streams:
        if each.error is not None and not output.json:
            output.error(each.error)
    if result.error is not None and not result.streams and not output.json:
        output.error(result.error)
    output.line(f"{name}: {result.status}, {counted(len(result.streams), 'stream')}")


def _dry_run(definition: SyncDef, where: _Where, output: CommandOutput) -> bool:
    from gauss.connect.embedded_sides import embedded_servers

    with embedded_servers(definition, DataDir(where.data_dir)) as sync:
        found = where.make(sync, lambda _: None).dry_run()
    for each in found:
        changes = [str(change) for change in each.changes]
        output.event(
            {
                "event": "plan",
                "sync": sync.name,
                "stream": each.stream,
                "mode": each.mode,
                "write": each.write,
                "changes": changes,
                "statements": each.statements,
            }
        )
        output.line(f"{each.stream}: {each.mode}, {each.write}", style="bold")
        for change in changes:
            output.line(f"  {change}")
        for statement in each.statements:
            output.line("  " + statement.replace("\n", "\n  ") + ";")
        if not each.statements:
            output.line("  the table stays as it is" if each.managed else "  the destination makes its own tables")
    return True


class _Stops:
    """The first signal drains a sync, the second one breaks it off."""

    def __init__(self, sync: Sync, output: CommandOutput) -> None:
        self._sync, self._output = sync, output
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        from gauss.contracts.connector.errors import ConnectorError

        # In threads of their own: a handler must not wait for a lock that the interrupted code may hold.
        if self._asked.is_set():
            error = ConnectorError.internal("CANCELLED", "interrupted")
            threading.Thread(target=self._sync.break_off, args=(error,), daemon=True).start()
        else:
            self._asked.set()
            threading.Thread(target=self._sync.drain, daemon=True).start()
            self._output.note("Stopping… press Ctrl-C again to force.")
