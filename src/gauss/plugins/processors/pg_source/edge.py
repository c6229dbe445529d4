"""Publishes rows of Postgres as records of a topic, each batch with the position after it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict

from gauss.contracts.chunk import Chunk
from gauss.contracts.format import SourceSchema
from gauss.contracts.outside import PullContext
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable
from gauss.model.units import counted
from gauss.plugins.formats.pg_binary.live_schema import PgSelection, cached_schema, describe
from gauss.plugins.processors.pg_source.copy_stream import NO_ROWS, CopyRows, copy_rows
from gauss.plugins.processors.pg_source.passes import CursorColumn, PullPosition, statement
from gauss.plugins.processors.pg_source.spec import PgSourceConfig

FIRST_PAUSE_S, MAX_PAUSE_S = 0.2, 15.0
DISK_WAIT_S = 0.25

log = logging.getLogger("gauss.pg_source")


class PgSource:
    """Feeds one topic from one table or query."""

    def __init__(self, context: PullContext) -> None:
        assert isinstance(context.config, PgSourceConfig)
        self._context = context
        self._config = config = context.config
        self._asked = PgSelection(config, context.embedded_dir, config.table, config.schema_name, config.query)
        self._position = PullPosition.load(context.position, config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pull-{context.name}", daemon=True)

    def start(self) -> None:
        self._context.status.state = "running"
        self._context.status.detail = "connecting"
        self._thread.start()

    def drain(self, seconds: float) -> None:
        self._stop.set()
        self._thread.join(seconds)

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2)
        self._context.status.state = "stopped"

    def _run(self) -> None:
        status, every, pause = self._context.status, self._config.every, FIRST_PAUSE_S
        while not self._stop.is_set():
            if self._position.passes and every is None:
                status.state, status.detail = "done", "the pass was read to its end"
                return
            before = status.records
            try:
                self._pass()
            except Exception as error:  # any error is shown and retried; the engine must not stop
                pause = FIRST_PAUSE_S if status.records > before else pause
                if not self._stop.is_set():
                    self._failed(error)
                self._stop.wait(pause)
                pause = min(pause * 2, MAX_PAUSE_S)
            else:
                pause = FIRST_PAUSE_S
                if every is not None:
                    self._stop.wait(every / 1000)

    def _failed(self, error: Exception) -> None:
        """Shows the error; the pass is retried in any case, since the server may return or the table be created."""
        status = self._context.status
        message = error.message if isinstance(error, GaussError) else f"{type(error).__name__}: {error}"
        hint = f" ({error.hint})" if isinstance(error, ConfigError | NotFound) and error.hint else ""
        if status.detail != message + hint:
            log.warning("%s: %s", self._context.name, message, exc_info=not isinstance(error, GaussError))
        status.detail = message + hint
        status.state = "waiting" if isinstance(error, Unavailable) else "failed"  # after the detail, which explains it

    def _pass(self) -> None:
        schema = cached_schema(self._asked, self._context.schema_dir)
        with self._asked.connect() as connection:
            _must_be_same(schema, describe(connection, self._asked))
            status = self._context.status
            status.state, status.detail = "running", f"pass {self._position.passes + 1}: {self._asked.rows}"
            status.connections = 1
            name, cursor, beyond = self._config.cursor_field, None, ""
            if name is not None:
                cursor = CursorColumn(schema, name)
                beyond = cursor.beyond(self._position.cursor, connection)
            held = NO_ROWS
            try:
                for rows in copy_rows(connection, statement(self._asked, schema) + beyond, self._stop):
                    held = self._publish_whole(held.followed_by(rows), cursor)
                if not self._stop.is_set():
                    position = self._position
                    if cursor is not None and len(held):
                        position = position.at(cursor.value(held.row(-1)))
                    self._publish(held, position.ended())
            finally:
                status.connections = 0
        status.detail = f"{counted(self._position.passes, 'pass', 'passes')}, {counted(status.records, 'row')}"

    def _publish_whole(self, rows: CopyRows, cursor: CursorColumn | None) -> CopyRows:
        """Publishes all but the last row, or all but the rows with the last cursor value, and returns the rest: it is
        published with the end of the pass or with the next rows, so that no position lies within equal values."""
        count = len(rows) - 1 if cursor is None else cursor.whole(rows)
        if not count:
            return rows
        position = self._position if cursor is None else self._position.at(cursor.value(rows.row(count - 1)))
        self._publish(rows.part(0, count), position)
        return rows.part(count, len(rows))

    def _publish(self, rows: CopyRows, position: PullPosition) -> None:
        while not self._context.may_read() and not self._stop.wait(DISK_WAIT_S):
            pass
        (topic,), now_ms = self._context.topics, time.time_ns() // 1_000_000
        chunks = {topic: Chunk(rows.array(), len(rows), now_ms)} if len(rows) else {}
        self._context.publish(chunks, asdict(position), self._stop)
        self._position = position
        self._context.status.records += len(rows)
        self._context.status.bytes += len(rows.body)


def _must_be_same(kept: SourceSchema, found: SourceSchema) -> None:
    """Raises if a column has changed: the format took its columns before and would misread the records."""
    was = {field.name: field.field_type for field in kept.fields}
    now = {field.name: field.field_type for field in found.fields}
    changed = [name for name in was if now.get(name) != was[name]]
    if changed:
        how = f"now {now[changed[0]].name}" if changed[0] in now else "now missing"
        raise ConfigError(
            f"column {changed[0]} has changed since the run took its columns: it was {was[changed[0]].name}, {how}",
            hint="start the run again; what was read before and waits in a topic is then decoded by the new columns",
        )
