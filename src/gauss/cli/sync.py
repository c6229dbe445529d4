"""`gauss sync`: runs the syncs of a pipeline."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from gauss.cli import complete
from gauss.cli.arguments import file_and_name
from gauss.cli.client import DEFAULT_DATA_DIR, DataDirOption
from gauss.cli.output import CommandOutput, JsonOption, visible
from gauss.cli.sync_progress import shown_progress
from gauss.config.check import check_or_raise
from gauss.config.secrets import Redactor
from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.model.errors import ConfigError, GaussError
from gauss.model.paths import DataDir
from gauss.model.units import counted, human_bytes

if TYPE_CHECKING:
    from gauss.connect.sync import Sync, SyncResult

CONFIG, FAILED = 1, 3


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
        bool, typer.Option("--local", help="Run in this process, whatever `runs_on` says; a query needs Spark.")
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
    if pipeline.databases:
        from gauss.cli.databases import with_kept_databases
        from gauss.config.database_refs import databases_of_sync

        names = set().union(*map(databases_of_sync, chosen))
        found = with_kept_databases(pipeline, names, checked, data_dir, output.note)
        chosen = [sync for sync in found.syncs if sync.name in {each.name for each in chosen}]
    where = _Where(checked.base_dir, data_dir.absolute(), pipeline.spark, local, checked.redactor)
    codes = []
    with _logs(output), _Stops(output) as stops:
        for sync in chosen:
            codes.append(_dry_run(sync, where, output) if dry_run else _run(sync, where, output, stops))
            if stops.asked:
                break
    if any(codes):
        raise typer.Exit(max(codes))


class _Where(NamedTuple):
    """Where syncs run."""

    base_dir: Path
    data_dir: Path
    spark: SparkSection
    local: bool
    redactor: Redactor

    def make(self, sync: SyncDef, emit: Any) -> Sync:
        from gauss.connect.sync import Sync

        return Sync(
            sync, self.base_dir, self.data_dir, emit, spark=self.spark, local=self.local, redactor=self.redactor
        )


def _run(definition: SyncDef, where: _Where, output: CommandOutput, stops: _Stops) -> int:
    """Runs a sync; returns its exit code."""
    from gauss.connect.embedded_sides import embedded_servers

    name = definition.name
    try:
        with embedded_servers(definition, DataDir(where.data_dir)) as sync, shown_progress(output, name) as progress:

            def emit(event: dict[str, Any]) -> None:
                output.event(event)
                progress(event)

            made = where.make(sync, emit)
            with stops.of(made):
                result = made.run()
    except GaussError as error:
        return _failed(name, error, output)
    _summary(name, result, output)
    return FAILED if result.status == "failed" else 0


def _failed(name: str, error: GaussError, output: CommandOutput) -> int:
    """Tells of a sync that did not get to its streams; returns its exit code."""
    output.event({"event": "error", "error": error.to_dict()})
    output.event({"event": "result", "sync": name, "status": "failed", "streams": []})
    if not output.json:
        output.error(error)
    return CONFIG if isinstance(error, ConfigError) else FAILED


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


def _dry_run(definition: SyncDef, where: _Where, output: CommandOutput) -> int:
    from gauss.connect.embedded_sides import embedded_servers

    try:
        with embedded_servers(definition, DataDir(where.data_dir)) as sync:
            found = where.make(sync, lambda _: None).dry_run()
    except GaussError as error:
        return _failed(definition.name, error, output)
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
    return 0


class _Stops:
    """The first signal drains the sync that runs, and starts no other; the second one breaks it off."""

    def __init__(self, output: CommandOutput) -> None:
        self.asked = False
        self._sync: Sync | None = None
        self._output = output
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def of(self, sync: Sync) -> Iterator[None]:
        """While it is open, signals are for this sync."""
        self._sync = sync
        if self.asked:
            sync.drain()
        try:
            yield
        finally:
            self._sync = None

    def _on_signal(self, *_: object) -> None:
        from gauss.contracts.connector.errors import ConnectorError

        sync, again, self.asked = self._sync, self.asked, True
        if sync is None:
            if again:  # what takes so long is the start of a server
                raise KeyboardInterrupt
        # In threads of their own: a handler must not wait for a lock that the interrupted code may hold.
        elif again:
            error = ConnectorError.internal("CANCELLED", "interrupted")
            threading.Thread(target=sync.break_off, args=(error,), daemon=True).start()
        else:
            threading.Thread(target=sync.drain, daemon=True).start()
        if not again:
            self._output.note("Stopping… press Ctrl-C again to force.")


@contextmanager
def _logs(output: CommandOutput) -> Iterator[None]:
    """Warnings go to stderr as they would by default, but without secrets."""
    handler = _RedactedLog(output)
    logger = logging.getLogger("gauss")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _RedactedLog(logging.Handler):
    def __init__(self, output: CommandOutput) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        redactor, text = self._output.redactor, record.getMessage()
        sys.stderr.write(visible(redactor.redact(text) if redactor is not None else text, keep="\n\t") + "\n")
