"""Writes dead letters of a sync again, through its destination. Each is written once, whenever the process is killed.

Letters are written in chunks of one stream and one schema, as a pipeline of their own (`NAME~letters`), so that the
cursor of the stream does not move. A chunk's number is its cursor: the destination commits it with the rows, and a
replay that was killed asks for it. Rows that are refused again are in the journal before that commit. At the end the
file of letters is replaced, in one step, by one without those that were written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from gauss.config.syncs import StreamDef, SyncDef
from gauss.connect.attempt import Attempt, Side, close, typed
from gauss.connect.evolution import SchemaPlan
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.letters import Letter, SyncLetters, make_letter, row_of
from gauss.connect.plan import StreamPlan, plan_streams
from gauss.connect.replay_journal import ReplayJournal
from gauss.connect.replay_source import CHUNK_FIELD, TOKEN_FIELD, letter_side
from gauss.connect.resumption import Above, raise_above
from gauss.connect.runs import SyncRun, start_run
from gauss.connect.sides import make_side
from gauss.connect.state import StateStore, StreamCursor
from gauss.connect.stream_job import ATTEMPTS, LEVELS, planned_table
from gauss.contracts.connector.arrow_types import column_schemas
from gauss.contracts.connector.connector import ManagedDestination
from gauss.contracts.connector.cursor import CursorValue, JsonCursor
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric
from gauss.contracts.connector.stream import OPERATION, DataErrorPolicy, SyncMode

log = logging.getLogger("gauss.connect")
CHUNK_ROWS = 1_000
CHUNK_BYTES = 4 << 20
DESTINATION = "destination"


@dataclass
class Replayed:
    """What became of letters."""

    replayed: int = 0
    """Written; those that came back count, too."""
    returned: int = 0
    """Refused again; they are letters with one more attempt."""
    refused: int = 0
    """Not tried: they were never rows of the stream, or the sync no longer has their stream."""


class LetterReplay:
    """Replays letters of one sync. `sync` has the addresses of embedded servers."""

    def __init__(self, sync: SyncDef, base_dir: Path, data_dir: Path) -> None:
        self._sync = sync
        self._folder = data_dir / "connect"
        self._side: Side = make_side(DESTINATION, sync, base_dir, data_dir)
        self._letters = SyncLetters(self._folder / "letters", sync.name)
        self._journal = ReplayJournal(self._folder / "replays", sync.name)
        self._floor = 0
        """The largest generation that a destination has refused this one for."""
        self._in_doubt = False
        """Whether a chunk was sent, and it is not known if the destination has committed it."""

    def __call__(self, is_chosen: Callable[[int, Letter], bool]) -> Replayed:
        """Replays the letters that are chosen by number and content. Raises Rejected while the sync runs, and
        ConnectorError if the destination fails; letters that were written by then are removed."""
        store = StateStore(self._sync.state or self._folder / "state.db")
        try:
            run = start_run(store, self._sync.name)  # no run of the sync may add letters meanwhile
            try:
                return self._replay(is_chosen, store, run)
            finally:
                run.end("replayed", "dead letters")
        finally:
            store.close()

    def _replay(self, is_chosen: Callable[[int, Letter], bool], store: StateStore, run: SyncRun) -> Replayed:
        result = Replayed()
        chosen = {letter["id"] for place, letter in enumerate(self._letters, 1) if is_chosen(place, letter)}
        number = self._finish(store, run, 0, result) if self._journal.exists else 0  # one that was killed
        left = [letter for letter in self._letters if letter["id"] in chosen]
        able = [letter for letter in left if letter["side"] == DESTINATION and self._stream(letter["stream"])]
        result.refused = len(left) - len(able)
        if able:
            self._journal.begin([[letter["id"] for letter in chunk] for chunk in chunks(able)])
            self._finish(store, run, number, result)
        return result

    def _finish(self, store: StateStore, run: SyncRun, number: int, result: Replayed) -> int:
        """Writes what is left of a replay, and removes the letters that it has written. Returns `number` and how many
        attempts it has made."""
        wanted = {id for chunk in self._journal.chunks for id in chunk}
        known = {letter["id"]: letter for letter in self._letters if letter["id"] in wanted}
        try:
            for place, ids in enumerate(self._journal.chunks):
                letters = [known[id] for id in ids if id in known]
                if place not in self._journal.done and letters:
                    number += 1
                    self._write_above(place, letters, store, run, number)
        except ConnectorError:
            if not self._in_doubt:  # else the next replay asks the destination
                self._settle(known, result)
            raise
        self._settle(known, result)
        return number

    def _settle(self, known: dict[str, Letter], result: Replayed) -> None:
        """Removes the letters that were written. If none of them is there, that was done before the process died."""
        done = self._journal.done_ids() & known.keys()
        if done:
            back = self._journal.back()
            self._letters.remove(lambda _, letter: letter["id"] in done, back)
            result.replayed += len(done)
            result.returned += len(back)
        self._journal.remove()

    def _write_above(self, chunk: int, letters: list[Letter], store: StateStore, run: SyncRun, number: int) -> None:
        """Writes a chunk, with a generation above those that the destination knows, also after the state was lost."""
        while True:
            try:
                self._write(chunk, letters, store, run, max(run.generation * ATTEMPTS, self._floor) + number)
                return
            except Above as above:
                self._floor = above.newest

    def _write(self, chunk: int, letters: list[Letter], store: StateStore, run: SyncRun, generation: int) -> None:
        """Writes a chunk, unless the destination has committed it already."""
        name, rows, attempts = f"{self._sync.name}~letters", joined(letters), letters[0]["attempts"] + 1
        plan = self._plan(letters[0]["stream"], rows.schema)
        stream, schema = plan.context(), None

        def committed(checkpoint: Checkpoint) -> None:
            now = time.time_ns() // 1_000_000
            cursor = StreamCursor(generation, checkpoint.cursor_value, checkpoint.id, now)
            store.move(name, plan.name, cursor, run.id)

        def rejected(rows: pa.RecordBatch, error: ConnectorError) -> None:
            singles = [rows.slice(place, 1) for place in range(rows.num_rows)]
            found = [make_letter(plan.name, DESTINATION, row, error, run.id) for row in singles]
            self._journal.come_back(chunk, [{**letter, "attempts": attempts} for letter in found])

        def stream_run(schema: SchemaPlan | None = None) -> StreamRun:
            observer = _Observer(committed, rejected)
            return StreamRun(stream, store, observer, pipeline=name, generation=generation, schema=schema)

        manager, info = self._side.open(StreamHost(stream_run(), CheckpointKind.DEST, self._side.id))

        def is_committed() -> bool:
            """Asks a destination that knows; else by the checkpoint that it has sent."""
            if isinstance(manager, ManagedDestination):
                mark = typed(lambda: manager.watermark(stream, ""))
                return mark is not None and self._is_cursor_of(chunk, mark.cursor)
            found = store.cursor(name, plan.name)
            return found is not None and self._is_cursor_of(chunk, found.value)

        try:
            if isinstance(manager, ManagedDestination):
                schema, statements = planned_table(manager, info, stream, plan.schema())
                try:
                    typed(lambda: manager.prepare(stream, statements, generation))
                except ConnectorError as error:
                    raise_above(error, stream, self._floor, store, run)
            if not is_committed():
                self._journal.begin_chunk(chunk)
                self._in_doubt = True
                outcome = Attempt(stream_run(schema), letter_side(rows, self._journal.token, chunk), self._side)()
                if outcome.error is not None and not is_committed():
                    self._in_doubt = False
                    raise outcome.error
            if isinstance(manager, ManagedDestination):
                typed(lambda: manager.finish(stream, generation))
            self._journal.end_chunk(chunk)
            self._in_doubt = False
        finally:
            close(manager)

    def _is_cursor_of(self, chunk: int, cursor: CursorValue | None) -> bool:
        if not isinstance(cursor, JsonCursor) or not isinstance(cursor.value, dict):
            return False
        return cursor.value.get(TOKEN_FIELD) == self._journal.token and cursor.value.get(CHUNK_FIELD) == chunk

    def _stream(self, name: str) -> StreamDef | None:
        """How rows of a stream are written again: added to what is there."""
        if self._sync.streams == "*":
            found: StreamDef | None = StreamDef(name=name)
        else:
            found = next((each for each in self._sync.streams if each.name == name), None)
        if found is None:
            return None
        write = "append" if found.writing == "replace" else found.writing
        mode = "incremental" if found.mode == "full_refresh" else found.mode
        # Without a cursor field: the cursor is the number of a chunk. A transform has been applied already.
        return found.model_copy(update={"mode": mode, "write": write, "cursor": None, "transform": None})

    def _plan(self, name: str, schema: pa.Schema) -> StreamPlan:
        stream = self._stream(name)
        assert stream is not None
        policies = self._sync.policies.model_copy(update={"on_data_error": DataErrorPolicy.DLQ})
        sync = self._sync.model_copy(update={"streams": [stream], "policies": policies})
        if stream.mode == "cdc":  # the plan adds the operation where it belongs
            schema = pa.schema([each for each in schema if each.name != OPERATION], schema.metadata)
        catalog = Catalog([CatalogStream(name, column_schemas(schema), list(SyncMode))])
        [plan] = plan_streams(sync, catalog, [])
        return replace(plan, exact=schema)


class _Observer:
    """What happens while a chunk is written. Implements `host.Observer`."""

    def __init__(
        self, committed: Callable[[Checkpoint], None], rejected: Callable[[pa.RecordBatch, ConnectorError], None]
    ) -> None:
        self.committed = committed
        self._rejected = rejected

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:  # noqa: ARG002
        self._rejected(rows, error)

    def settle_rejected(self) -> None: ...

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None: ...

    def logged(self, connector: str, level: LogLevel, message: str) -> None:
        log.log(LEVELS[level], "%s: %s", connector, message)

    def measured(self, connector: str, metric: Metric) -> None: ...


def chunks(letters: list[Letter]) -> Iterator[list[Letter]]:
    """Letters that can be written together, in their order: of one stream, one schema and one number of attempts."""
    groups: dict[tuple[str, int, str], list[Letter]] = {}
    for letter in letters:
        schema = row_of(letter).schema
        kind = (letter["stream"], letter["attempts"], schema.serialize().to_pybytes().hex())
        groups.setdefault(kind, []).append(letter)
    for group in groups.values():
        chunk: list[Letter] = []
        size = 0
        for letter in group:
            if chunk and (len(chunk) >= CHUNK_ROWS or size + len(letter["ipc"]) > CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(letter)
            size += len(letter["ipc"])
        yield chunk


def joined(letters: list[Letter]) -> pa.RecordBatch:
    """The rows of letters of one schema as a batch."""
    return pa.Table.from_batches([row_of(letter) for letter in letters]).combine_chunks().to_batches()[0]
