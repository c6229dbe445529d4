"""A table: the newest record of each key. One writer at a time; readers take no lock.

V counts the events (upserts and deletions) in the order of their writing; Root(V) is what the first V of them leave.
The writer fills a list of batches (the memtable); a scan pins the root that was last published, and what it pinned is
sealed: the writer begins another. Sealed batches are sorted when first read, and merged in `maintain`, beside the
writer. What no root holds any more is freed by Python's reference counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Agg, Capabilities, KeyRange, Output, Point, Prefix, Program, Seq, TimeRange
from gauss.contracts.edge import DeadLetter
from gauss.contracts.format import Format
from gauss.contracts.storage import StorageContext, Taken, WriteFull
from gauss.model.batch import value_lengths
from gauss.model.errors import ConfigError
from gauss.plugins.storages.memory.decoded import DecodedColumns
from gauss.plugins.storages.memory.held import HeldRoots
from gauss.plugins.storages.memory.keys import Keyed, KeyReader
from gauss.plugins.storages.memory.runs import BATCH_BYTES, CANDIDATES, Run, candidate_batch, merged
from gauss.plugins.storages.memory.table_cursor import TableCursor

if TYPE_CHECKING:
    from gauss.plugins.storages.memory.spec import MemoryConfig

KEY_BYTES = 256
"""What a key takes beside its bytes and its record's: the entry by which it is found, its row's other columns, and room
to merge runs; measured over a million keys."""
SEAL_ROWS = 65_536
SEAL_BYTES = 16 << 20
SEAL_BATCHES = 1_024
PINNED_ROWS = 4_096
"""A pinned memtable below this goes on: sorting so few again costs less than a run of their own."""
RATIO = 2
"""A run is merged with the next older one unless that is more than so many times as large."""
GONE = -1

CAPABILITIES = Capabilities(
    views=frozenset({Seq, KeyRange, Prefix, Point, TimeRange, Agg}),
    outputs=frozenset({Output.ROWS, Output.COLUMNAR, Output.SCALAR}),
    live=True,
    seek=True,
)


class Events:
    """A link of the tail: a batch of events, and what came after it. Only live cursors hold on to earlier links."""

    __slots__ = ("batch", "next", "stop", "total")

    def __init__(self, batch: pa.RecordBatch, stop: int, total: int) -> None:
        self.batch = batch
        self.stop = stop
        """The version once it is applied."""
        self.total = total
        """Bytes of all events so far."""
        self.next: Events | None = None


class Root:
    """The table at one version; its parts never change."""

    __slots__ = ("last", "memtable", "pinned", "sealed", "version")

    def __init__(self, version: int, sealed: tuple[Run, ...], memtable: Run, last: Events) -> None:
        self.version = version
        self.sealed = sealed
        """Oldest first; the first is the base and holds no deletions."""
        self.memtable = memtable
        self.last = last
        self.pinned = False

    def runs(self) -> tuple[Run, ...]:
        return (*self.sealed, self.memtable)


class Table:
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
        """What each key takes in memory; with `overwrite` in the order of their last change."""
        self._pending: dict[str, int] = {}
        self._staged: list[pa.RecordBatch] = []
        self._staged_end = 0
        self._rows = self._bytes = self._shown_rows = self._shown_bytes = 0
        self._last_ts = self._shown_ts = 0
        self._memtable: list[pa.RecordBatch] = []
        self._memtable_bytes = 0
        self._root = Root(0, (), Run([], 0, 0), Events(pa.RecordBatch.from_pylist([], CANDIDATES), 0, 0))
        self._swap = threading.Lock()
        """Between the writer and the compaction; readers take the root as it stands."""
        self._compacting = threading.Lock()
        self._idle_at = -1
        self._cursors: dict[int, TableCursor] = {}
        self._held = HeldRoots(config.tail_bytes)
        self._numbers = itertools.count()
        self.counted_out: Callable[[int, int], None] = lambda _records, _bytes: None
        """Told of every batch that a cursor takes."""

    # --- writing ---

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[DeadLetter]]:
        return self._keys.read(chunk)

    def append(self, chunk: Chunk) -> Taken:
        assert isinstance(chunk, Keyed)
        kept = chunk if self._overwrite else self._admitted(chunk)
        if kept is None:
            return Taken(0, chunk.count, 0)
        self._stage(kept, self._changes(kept))
        return Taken(kept.count, chunk.count - kept.count, self._evict() if self._overwrite else 0)

    def _changes(self, chunk: Keyed) -> dict[str, int]:
        """What the chunk leaves of each of its keys: the bytes it takes in memory, or GONE."""
        # A key lies in its row, and beside it to be found by.
        sizes = value_lengths(chunk.payload) + 2 * value_lengths(chunk.keys) + KEY_BYTES
        if chunk.deleted is not None:
            sizes = np.where(chunk.deleted, GONE, sizes)
        return dict(zip(chunk.keys.to_pylist(), sizes.tolist(), strict=True))

    def _sizes(self, keys: dict[str, int]) -> np.ndarray:
        """The bytes that each key's row has now, staged changes included."""
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
        """What fits of a chunk: a full table refuses new keys, never changes of those it has."""
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
        """Deletes the keys whose last change is oldest until the rest fits; one row always stays."""
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
        # One swap: whoever sees the version sees its rows.
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
        """The version from which on the tail is kept."""
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
        """What the newest root keeps in memory, whoever reads it."""
        return {id(part) for run in self._root.runs() for part in run.parts()}

    def pin(self) -> Root:
        """The newest root; the writer begins another memtable."""
        root = self._root
        root.pinned = True
        return root

    def hold(self) -> int:
        root = self.pin()
        self._held.add(root)
        return root.version

    def let_go(self, version: int) -> None:
        self._held.remove(version)

    def held(self, version: int) -> tuple[Run, ...] | None:
        """The runs of Root(version), if somebody holds it."""
        root = self._root
        return root.runs() if version == root.version else self._held.runs(version)

    def tail_at(self, version: int) -> Events | None:
        """The link of the tail after which events above `version` come; None when it is not kept."""
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

    def watermark(self) -> int:
        """The lowest version that a cursor holds; the current one when none is open."""
        return min((cursor.hold for cursor in tuple(self._cursors.values())), default=self._root.version)

    # --- compaction ---

    def maintain(self) -> None:
        """Merges runs until each is well below the next older one; an idle table becomes one run."""
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
            run.pages()  # sorted here, so that no reader has to
        for index in range(len(runs) - 2, -1, -1):
            older, newer = runs[index], runs[index + 1]
            if idle or older.rows <= RATIO * newer.rows:
                one = merged(older, newer, keep_deleted=index > 0)
                with self._swap:  # the writer has only added runs behind
                    now = self._root
                    sealed = (*now.sealed[:index], one, *now.sealed[index + 2 :])
                    self._root = Root(now.version, sealed, now.memtable, now.last)
                return True
        return False

    def close(self) -> None:
        for cursor in tuple(self._cursors.values()):
            cursor.close()
