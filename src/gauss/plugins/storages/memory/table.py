"""A table: the newest record of each key. One writer at a time; readers take no lock.

The version V is the number of events (upserts and deletions) so far; Root(V) is the state after the first V events. The
writer fills a list of batches (the memtable). A scan pins the last published root, which seals its memtable, and the
writer starts another one. Sealed batches are sorted at the first read, and merged in `maintain`, concurrently with the
writer. Data that no root references is freed by Python's reference counting.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Agg, Capabilities, KeyRange, Output, Point, Prefix, Program, Seq, TimeRange
from gauss.contracts.format import Format
from gauss.contracts.letter import Letter
from gauss.contracts.storage import StorageContext, TableAppended, WriteFull
from gauss.model.batch import value_lengths
from gauss.model.errors import ConfigError
from gauss.plugins.storages.memory.decoded_columns import DecodedColumns
from gauss.plugins.storages.memory.held_roots import HeldRoots
from gauss.plugins.storages.memory.keys import Keyed, KeyReader
from gauss.plugins.storages.memory.runs import BATCH_BYTES, CANDIDATES, Run, candidate_batch, merged
from gauss.plugins.storages.memory.table_cursor import TableCursor

if TYPE_CHECKING:
    from gauss.plugins.storages.memory.spec import MemoryConfig

KEY_BYTES = 256
"""Overhead of a key besides the bytes of key and record: its dictionary entry, the row's other columns, and space to
merge runs; measured with a million keys."""
SEAL_ROWS = 65_536
SEAL_BYTES = 16 << 20
SEAL_BATCHES = 1_024
PINNED_ROWS = 4_096
"""A pinned memtable with fewer rows is not sealed: sorting it again costs less than another run."""
RATIO = 2
"""A run is merged with the next older one unless that is more than this factor larger."""
GONE = -1

CAPABILITIES = Capabilities(
    views=frozenset({Seq, KeyRange, Prefix, Point, TimeRange, Agg}),
    outputs=frozenset({Output.ROWS, Output.COLUMNAR, Output.SCALAR}),
    live=True,
    seek=True,
)


class Events:
    """A link of the tail: a batch of events and the next link. Only live cursors reference earlier links."""

    __slots__ = ("batch", "next", "stop", "total")

    def __init__(self, batch: pa.RecordBatch, stop: int, total: int) -> None:
        self.batch = batch
        self.stop = stop
        """The version after its events."""
        self.total = total
        """Bytes of all events so far."""
        self.next: Events | None = None


class Root:
    """The immutable state of the table at one version."""

    __slots__ = ("last", "memtable", "pinned", "sealed", "version")

    def __init__(self, version: int, sealed: tuple[Run, ...], memtable: Run, last: Events) -> None:
        self.version = version
        self.sealed = sealed
        """The sealed runs, oldest first; the first one is the base and has no deletions."""
        self.memtable = memtable
        self.last = last
        self.pinned = False

    def runs(self) -> tuple[Run, ...]:
        return (*self.sealed, self.memtable)


class MemoryTable:
    """A `contracts.storage.Table` in memory."""

    def __init__(self, config: MemoryConfig, context: StorageContext) -> None:
        self.inc = context.incarnation(0)
        self.capabilities = dataclasses.replace(CAPABILITIES, max_pinned_bytes=config.max_pinned_bytes)
        assert config.format is not None and config.key_field is not None
        plain = context.format(config.format)
        self._decoded = DecodedColumns(plain)
        self._keys = KeyReader(plain, config.key_field, config.delete_when, topic=context.topic, inc=self.inc)
        self._limit_rows, self._limit_bytes = config.rows(), config.storage_bytes
        self._overwrite = config.full() is WriteFull.OVERWRITE
        self._tail_bytes = config.tail_bytes
        self._live: dict[str, int] = {}
        """Memory size of each key; with `overwrite` in the order of the last change."""
        self._pending: dict[str, int] = {}
        self._staged: list[pa.RecordBatch] = []
        self._staged_end = 0
        self._rows = self._bytes = self._shown_rows = self._shown_bytes = 0
        self._last_ts = self._shown_ts = 0
        self._memtable: list[pa.RecordBatch] = []
        self._memtable_bytes = 0
        self._root = Root(0, (), Run([], 0, 0), Events(pa.RecordBatch.from_pylist([], CANDIDATES), 0, 0))
        self._swap = threading.Lock()
        """Lock between the writer and the compaction; readers take the current root without it."""
        self._compacting = threading.Lock()
        self._idle_at = -1
        self._cursors: dict[int, TableCursor] = {}
        self._held = HeldRoots(config.tail_bytes)
        self._numbers = itertools.count()

    # --- writing ---

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        return self._keys.read(chunk)

    def append(self, chunk: Chunk) -> TableAppended:
        assert isinstance(chunk, Keyed)
        kept = chunk if self._overwrite else self._admitted(chunk)
        if kept is None:
            return TableAppended(0, chunk.count, 0)
        self._stage(kept, self._changes(kept))
        return TableAppended(kept.count, chunk.count - kept.count, self._evict() if self._overwrite else 0)

    def _changes(self, chunk: Keyed) -> dict[str, int]:
        """The memory size of each key after the chunk, or GONE if it is deleted."""
        # A key is stored in its row and in the dictionary.
        sizes = value_lengths(chunk.payload) + 2 * value_lengths(chunk.keys) + KEY_BYTES
        if chunk.deleted is not None:
            sizes = np.where(chunk.deleted, GONE, sizes)
        return dict(zip(chunk.keys.to_pylist(), sizes.tolist(), strict=True))

    def _sizes(self, keys: dict[str, int]) -> np.ndarray:
        """The current memory size of each key, including staged changes."""
        found: Iterable[int] = map(self._live.get, keys, itertools.repeat(GONE))
        if self._pending:
            found = (self._pending.get(key, self._live.get(key, GONE)) for key in keys)
        return np.fromiter(found, np.int64, len(keys))

    def _stage(self, chunk: Keyed, changes: dict[str, int]) -> None:
        before, after = self._sizes(changes), np.fromiter(changes.values(), np.int64, len(changes))
        self._rows += int(np.count_nonzero(after >= 0)) - int(np.count_nonzero(before >= 0))
        self._bytes += int(np.maximum(after, 0).sum()) - int(np.maximum(before, 0).sum())
        if self._overwrite:
            deque(map(self._pending.pop, changes, itertools.repeat(None)), maxlen=0)
        self._pending.update(changes)
        times = chunk.ts_ms
        if isinstance(times, int):
            times = max(times, self._last_ts)
            self._last_ts = times
        else:
            times = np.maximum.accumulate(np.maximum(times, self._last_ts))
            self._last_ts = int(times[-1])
        self._staged.append(candidate_batch(chunk.keys, self._staged_end + 1, times, chunk.deleted, chunk.payload))
        self._staged_end += chunk.count

    def _admitted(self, chunk: Keyed) -> Keyed | None:
        """The records of a chunk that fit: a full table rejects new keys, but never changes of existing keys."""
        rows, size = self._limit_rows, self._limit_bytes
        most = chunk.nbytes + 2 * chunk.keys.nbytes + KEY_BYTES * chunk.count
        if (rows is None or self._rows + chunk.count <= rows) and self._bytes + most <= size:
            return chunk
        changes = self._changes(chunk)
        new = self._sizes(changes) < 0
        held, room = self._bytes, None if rows is None else max(rows - self._rows, 0)
        refused = set()
        for key, bytes_ in itertools.compress(changes.items(), new):
            if bytes_ < 0:
                continue
            if (room is not None and room <= 0) or (held + bytes_ > size and held):
                refused.add(key)
                continue
            held += bytes_
            room = None if room is None else room - 1
        if not refused:
            return chunk
        kept = ~np.fromiter(map(refused.__contains__, chunk.keys.to_pylist()), bool, chunk.count)
        return chunk.filtered(kept) if kept.any() else None

    def _evict(self) -> int:
        """Deletes the least recently changed keys until the rest fits; at least one row stays."""
        rows = self._limit_rows
        if not self._over(rows):
            return 0
        held_rows, held_bytes, gone = self._rows, self._bytes, []
        for key, size in self._oldest():
            if held_rows <= 1 or not (held_bytes > self._limit_bytes or (rows is not None and held_rows > rows)):
                break
            gone.append(key)
            held_rows -= 1
            held_bytes -= size
        keys = pa.array(gone, pa.string())
        nothing = pa.array([b""] * len(gone), pa.binary())
        self._stage(Keyed(nothing, self._last_ts, keys, np.ones(len(gone), bool)), dict.fromkeys(gone, GONE))
        return len(gone)

    def _over(self, rows: int | None) -> bool:
        return self._rows > 1 and (self._bytes > self._limit_bytes or (rows is not None and self._rows > rows))

    def _oldest(self) -> Iterator[tuple[str, int]]:
        unchanged = ((key, size) for key, size in self._live.items() if key not in self._pending)
        return itertools.chain(unchanged, ((key, size) for key, size in self._pending.items() if size >= 0))

    def reveal(self) -> None:
        if not self._staged:
            return
        pending, live = self._pending, self._live
        if self._overwrite:
            deque(map(live.pop, pending, itertools.repeat(None)), maxlen=0)
        live.update(pending)
        if len(live) != self._rows:
            for key in [key for key, size in pending.items() if size < 0]:
                del live[key]
        staged, self._staged, self._pending = self._staged, [], {}
        self._shown_rows, self._shown_bytes, self._shown_ts = self._rows, self._bytes, self._last_ts
        with self._swap:
            self._publish(staged)
        self._reject_those_behind()

    def _publish(self, staged: list[pa.RecordBatch]) -> None:
        root, sealed = self._root, self._root.sealed
        full = (
            root.memtable.rows >= SEAL_ROWS
            or len(self._memtable) >= SEAL_BATCHES
            or self._memtable_bytes >= SEAL_BYTES
            or (root.pinned and root.memtable.rows >= PINNED_ROWS)
        )
        rows = 0 if full else root.memtable.rows
        if full:
            sealed = (*sealed, root.memtable)
            self._memtable, self._memtable_bytes = [], 0
        last = root.last
        for batch in staged:
            size = batch.nbytes + BATCH_BYTES
            self._memtable_bytes += size
            rows += batch.num_rows
            last.next = Events(batch, last.stop + batch.num_rows, last.total + size)
            last = last.next
        self._memtable += staged
        # A single assignment, so that a reader that sees the version sees its rows.
        self._root = Root(self._staged_end, sealed, Run(self._memtable, len(self._memtable), rows), last)

    def rollback(self) -> None:
        self._staged, self._pending = [], {}
        self._staged_end = self._root.version
        self._rows, self._bytes, self._last_ts = self._shown_rows, self._shown_bytes, self._shown_ts

    def _reject_those_behind(self) -> None:
        newest = self._root.last.total
        self._held.forget_tail(newest)
        for cursor in tuple(self._cursors.values()):
            link = cursor.tail()
            if link is not None and newest - link.total > self._tail_bytes:
                cursor.reject()

    # --- state ---

    @property
    def end(self) -> int:
        return self._root.version

    @property
    def staged_end(self) -> int:
        return self._staged_end

    @property
    def floor(self) -> int:
        """The oldest version whose later changes are still in the tail."""
        link = self._oldest_link()
        return self._root.version if link is None else link.stop

    @property
    def rows(self) -> int:
        return self._shown_rows

    @property
    def bytes(self) -> int:
        return self._shown_bytes

    def last_ts(self) -> int:
        return self._shown_ts

    # --- reading ---

    def candidates(self) -> pa.Schema:
        return CANDIDATES

    def format(self) -> Format:
        return cast(Format, self._decoded)

    def open(self, program: Program) -> TableCursor:
        if program.output not in self.capabilities.outputs:
            raise ConfigError(f'a table has no output "{program.output.value}"', hint="ask for rows")
        number = next(self._numbers)
        cursor = TableCursor(self, program, lambda: self._cursors.pop(number, None))
        self._cursors[number] = cursor
        return cursor

    def newest_parts(self) -> set[int]:
        """The ids of the batches that the newest root keeps in memory."""
        return {id(part) for run in self._root.runs() for part in run.parts()}

    def pin(self) -> Root:
        """Returns the newest root; the writer starts another memtable."""
        root = self._root
        root.pinned = True
        return root

    def hold(self) -> int:
        root = self.pin()
        self._held.add(root)
        return root.version

    def unpin(self, version: int) -> None:
        self._held.remove(version)

    def held(self, version: int) -> tuple[Run, ...] | None:
        """The runs of Root(version) if it is current or held; else None."""
        root = self._root
        return root.runs() if version == root.version else self._held.runs(version)

    def tail_at(self, version: int) -> Events | None:
        """The link of the tail before the events after `version`; None if it is no longer kept."""
        root = self._root
        if version == root.version:
            return root.last
        link = self._oldest_link()
        while link is not None and link.next is not None and link.next.stop <= version:
            link = link.next
        return link if link is not None and link.stop <= version else None

    def _oldest_link(self) -> Events | None:
        links = (*(cursor.tail() for cursor in tuple(self._cursors.values())), self._held.oldest_link())
        return min((link for link in links if link is not None), key=lambda link: link.stop, default=None)

    # --- compaction ---

    def maintain(self) -> None:
        """Merges runs until each is much smaller than the next older one; an idle table becomes one run."""
        if not self._compacting.acquire(blocking=False):
            return
        try:
            version = self._root.version
            while self._merge_one(idle=version == self._idle_at):
                pass
            self._idle_at = version
            for run in self._root.sealed:
                self._decoded.watch(run)
            self._decoded.release()
        finally:
            self._compacting.release()

    def _merge_one(self, *, idle: bool) -> bool:
        root = self._root
        if idle and root.memtable.rows:
            with self._swap:
                root = self._root
                self._memtable, self._memtable_bytes = [], 0
                self._root = root = Root(root.version, (*root.sealed, root.memtable), Run([], 0, 0), root.last)
        runs = root.sealed
        for run in runs:
            run.pages()  # sorts in the background, not in a reader
        for index in range(len(runs) - 2, -1, -1):
            older, newer = runs[index], runs[index + 1]
            if idle or older.rows <= RATIO * newer.rows:
                one = merged(older, newer, keep_deleted=index > 0)
                with self._swap:  # the writer has only appended runs
                    now = self._root
                    sealed = (*now.sealed[:index], one, *now.sealed[index + 2 :])
                    self._root = Root(now.version, sealed, now.memtable, now.last)
                return True
        return False

    def close(self) -> None:
        for cursor in tuple(self._cursors.values()):
            cursor.close()
