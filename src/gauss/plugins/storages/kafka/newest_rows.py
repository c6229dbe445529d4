"""The newest record of each key of a Kafka topic as the rows of a table, for scans of the engine."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.kafka.reading import Range
from gauss.contracts.cursor import Agg, Capabilities, KeyRange, Mode, Output, Point, Prefix, Program, Seq, TimeRange
from gauss.contracts.storage import StorageContext
from gauss.model.errors import ConfigError, Rejected, Unavailable
from gauss.plugins.storages.kafka.partition import existing_range
from gauss.plugins.storages.kafka.snapshot import KEY, PARTITION, Snapshot, row_keys
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig
from gauss.plugins.storages.memory.runs import CANDIDATES, PAGE_BYTES, PAGE_ROWS, Run
from gauss.plugins.storages.memory.table import Events, Root
from gauss.plugins.storages.memory.table_cursor import TableCursor

if TYPE_CHECKING:
    from gauss.contracts.format import Format
    from gauss.plugins.storages.kafka.shared_log import KafkaLog
    from gauss.plugins.storages.kafka.topic_state import TopicState

KEPT_SECONDS = 30.0
"""Time for which a snapshot that nobody reads is kept for the next scan from the same ends."""
MOST_SNAPSHOTS = 4
"""Snapshots from different ends that are in memory at once."""
CAPABILITIES = Capabilities(
    views=frozenset({Seq, KeyRange, Prefix, Point, TimeRange, Agg}),
    outputs=frozenset({Output.ROWS, Output.COLUMNAR, Output.SCALAR}),
    live=False,
    seek=True,
)
_NO_EVENTS = pa.RecordBatch.from_pylist([], CANDIDATES)


class FrozenRows(Run):
    """The rows up to one end of the log, sorted by key. They are read once, when a cursor first needs them."""

    def __init__(self, state: TopicState, read: Callable[[FrozenRows], list[pa.RecordBatch]]) -> None:
        super().__init__([], 0, 0)
        self.state, self.version, self.ends = state, state.end, state.index.ends_at(state.end)
        self.cursors: set[int] = set()
        self.used = time.monotonic()
        self._read, self._reading = read, threading.Lock()

    def pages(self) -> list[pa.RecordBatch]:
        if self._pages is None:
            with self._reading:
                if self._pages is None:
                    self._settle(self._read(self))
        assert self._pages is not None
        return self._pages

    @property
    def is_read(self) -> bool:
        return self._pages is not None

    # --- what a cursor pins ---

    def pin(self) -> Root:
        return Root(self.version, (self,), Run([], 0, 0), Events(_NO_EVENTS, self.version, 0))

    def newest_parts(self) -> set[int]:
        return {id(part) for part in self.parts()}

    def held(self, version: int) -> None:
        """No other version is kept."""

    def tail_at(self, version: int) -> None:
        """There is no tail."""


class NewestRows:
    """Implements `contracts.cursor.Provider`. Cursors that begin at the same ends share what is read."""

    capabilities: Capabilities = CAPABILITIES

    def __init__(self, log: KafkaLog, config: KafkaTopicConfig, context: StorageContext) -> None:
        self.inc, self._log, self._config = log.inc, log, config
        self._format = None if config.format is None else context.format(config.format)
        self._keys = row_keys(config, context.format)
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._kept: list[FrozenRows] = []
        self._numbers = itertools.count()

    def candidates(self) -> pa.Schema:
        return CANDIDATES

    def format(self) -> Format | None:
        return self._format

    def version(self) -> int:
        return self._log.end

    def floor(self) -> int:
        return self._log.end

    def open(self, program: Program) -> TableCursor:
        if program.mode is Mode.LIVE:
            raise ConfigError(
                f"the snapshot of topic {self._log.topic} can't be read live",
                hint="read the topic live by offset, without snapshot",
            )
        self._log.look()
        number = next(self._numbers)
        with self._lock:
            rows = self._at(self._log.state)
            rows.cursors.add(number)
        try:
            return TableCursor(rows, program, lambda: self._closed(rows, number))
        except BaseException:
            self._closed(rows, number)
            raise

    def _at(self, state: TopicState) -> FrozenRows:
        """The rows up to the end of the log."""
        self._drop_unused()
        for rows in self._kept:
            if rows.state is state and rows.version == state.end:
                return rows
        self._kept.append(FrozenRows(state, self._read))
        return self._kept[-1]

    def _closed(self, rows: FrozenRows, number: int) -> None:
        rows.used = time.monotonic()
        rows.cursors.discard(number)

    def _drop_unused(self) -> None:
        """Keeps what is read, and for a while the newest snapshot."""
        newest, since = self._kept[-1:], time.monotonic() - KEPT_SECONDS
        self._kept = [each for each in self._kept if each.cursors or (each in newest and each.used > since)]

    def maintain(self) -> None:
        """Frees what was not read for some time."""
        with self._lock:
            self._drop_unused()

    def _read(self, rows: FrozenRows) -> list[pa.RecordBatch]:
        with self._reading:  # one after the other, which bounds the memory
            with self._lock:
                self._drop_unused()
                others = sum(each.is_read for each in self._kept)
            if others >= MOST_SNAPSHOTS:
                raise Rejected(
                    f"{others} snapshots of topic {self._log.topic} are being read, each from other ends",
                    hint="try again when one of their readers has finished",
                )
            log, state = self._log, rows.state
            snapshot = Snapshot(log.topic, self._keys, self._config.snapshot_bytes)
            for number, end in rows.ends.items():
                wanted = Range(log.topic, number, state.earliest[number], end, state.identity.topic_id)
                found = existing_range(log.reader, wanted, lambda: log.check(state), lambda *_: None, state.ended)
                snapshot.add(number, found)
            if state.ended.is_set():
                raise Unavailable(f"topic {log.topic} was closed, or deleted and made anew, while it was read")
            log.check(state)
            return _pages(snapshot.newest(), state)


def _pages(found: pa.Table, state: TopicState) -> list[pa.RecordBatch]:
    """The rows sorted by key. The version of a row is the offset of its record in the log."""
    versions = np.zeros(len(found), np.int64)
    partitions, offsets = found.column(PARTITION).to_numpy(), found.column("offset").to_numpy()
    for number in np.unique(partitions).tolist():
        versions[partitions == number] = state.index.offsets_of(number, offsets[partitions == number])
    found = pa.table(
        {
            "key": _texts(found.column(KEY)),
            "version": versions,
            "ts_ms": np.maximum(found.column("ts_ms").to_numpy(), 0),  # -1: without one
            "deleted": np.zeros(len(found), bool),
            "data": found.column("data"),
        }
    )
    order = pc.sort_indices(found, [("key", "ascending")])
    sizes = np.cumsum(pc.binary_length(found.column("data").take(order)).to_numpy())
    cuts = np.flatnonzero(np.diff(sizes // PAGE_BYTES)) + 1
    edges = np.unique(np.concatenate([[0, len(found)], cuts, np.arange(0, len(found), PAGE_ROWS)])).tolist()
    pages = (found.take(order.slice(start, stop - start)) for start, stop in itertools.pairwise(edges))
    return [page.combine_chunks().cast(CANDIDATES).to_batches()[0] for page in pages]


def _texts(keys: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Keys as text; bytes that are not UTF-8 become `\\xff`."""
    try:
        return keys.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="backslashreplace") for key in keys.to_pylist()], pa.large_string())
