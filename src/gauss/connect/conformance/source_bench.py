"""Reads streams of a source under test, and fills them where the kit can."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.connect.conformance.bench import SYNC, Bench, find_stream
from gauss.connect.conformance.case import CaseFailed, NotApplicable
from gauss.connect.conformance.collector import collected
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.generator import ID, write_rows
from gauss.connect.conformance.kit_sync import KitSync, described, succeeded
from gauss.connect.plan import discovered
from gauss.connect.state import StreamCursor
from gauss.connect.sync import SyncResult
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream
from gauss.contracts.connector.spec import DestinationSpec
from gauss.contracts.connector.stream import SyncMode

CANT_FILL = "can't write to its system: there is no destination of the same name, and no `fill` in the config"
ROWS = 400
SMALL: dict[str, Any] = {"limits": {"max_batch_bytes": 2048}, "checkpoint": {"rows": 40}}
"""Many batches and checkpoints of few rows, for streams of the kit's own."""


@dataclass(frozen=True)
class Read:
    """A run that read a stream."""

    sync: KitSync
    result: SyncResult
    rows: pa.Table


class SourceBench(Bench):
    """A source under test."""

    def catalog(self) -> Catalog:
        with self.opened() as found:
            return discovered(found.connector)

    def entry(self, stream: str) -> CatalogStream:
        for each in self.catalog().streams:
            if each.name == stream:
                return each
        raise CaseFailed(f"the catalog has no stream {stream}")

    # --- streams to read ---

    @property
    def can_fill(self) -> bool:
        return self.settings.fill is not None or (self.other is not None and self.other.spec is not None)

    def prime(self) -> None:
        if self.is_own:
            self.cached("plain", self._fill_plain)

    def _fill_plain(self) -> str:
        name = self.stream_name("plain")
        self._insert(name, plain(ROWS))
        return name

    def fill(self, stream: str, rows: pa.Table) -> str:
        """Upserts rows by their id; returns the stream's name in the source's catalog."""
        self._insert(stream, rows)
        return find_stream(self.catalog(), stream)

    def _insert(self, stream: str, rows: pa.Table) -> None:
        if self.settings.fill is not None:
            self.hook(self.settings.fill)(dict(self.target.config), stream, rows, [ID])
            return
        partner = self.partner(CANT_FILL)
        path = self.folder() / "rows.arrow"
        write_rows(rows, path)
        source, spec = self.generator({stream: path}), partner.spec
        entry: dict[str, Any] = {"name": stream, "write": "append"}
        if isinstance(spec, DestinationSpec) and "upsert" in spec.writes:
            # Row by row, so that a source sees which ones have changed. Each as a sync of its own: from the start.
            entry |= {"mode": "incremental", "cursor": ID, "write": "upsert", "key": [ID]}
            sync = self.sync(source, partner.definition(), [entry], name=self.stream_name("fill"))
        else:
            sync = self.sync(source, partner.definition(), [entry], self.data_dir(f"fill {stream}"))
        result = self.run(sync)
        if result.error is not None:
            raise NotApplicable(f"its system does not take the kit's rows: {described(result.error)}")

    @property
    def is_own(self) -> bool:
        """Whether the stream that cases read is the kit's own."""
        return not self.settings.streams and self.can_fill

    def stream(self) -> str:
        """The stream that most cases read."""

        def choose() -> str:
            if self.is_own:
                return find_stream(self.catalog(), self.cached("plain", self._fill_plain))
            if self.settings.streams:
                return self.settings.streams[0]
            names = [each.name for each in self.catalog().streams]
            if not names:
                raise NotApplicable("the catalog has no streams to read: name one in `streams`, or give `fill`")
            return names[0]

        return self.cached("stream", choose)

    def incremental(self, stream: str, wanted: str = "") -> str:
        """The cursor of a stream; not applicable if it has none."""
        entry = self.entry(stream)
        if SyncMode.INCREMENTAL not in entry.supported_sync_modes:
            raise NotApplicable(f"{stream} can't be read incrementally")
        columns = [each.name for each in entry.schema]
        candidates = [name for name in entry.cursor_candidates or [] if name in columns]
        if wanted:
            if entry.cursor_candidates and not candidates:
                raise NotApplicable("the source has a cursor of its own, no column")
            if entry.cursor_candidates and wanted not in candidates:
                raise NotApplicable(f"the source does not take this type of column as a cursor ({wanted})")
            return wanted
        # A source with a position of its own takes the name of any column.
        return ID if ID in candidates else (candidates or columns)[0]

    # --- reading ---

    def one_at_a_time(self) -> dict[str, Any]:
        """Limits by which a source waits for every batch to be taken."""
        return {**(SMALL["limits"] if self.is_own else {}), "max_inflight_batches": 1}

    def prepare(
        self,
        stream: str,
        folder: Path,
        *,
        cursor: str = "",
        data_dir: Path | None = None,
        collector: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        **more: Any,
    ) -> KitSync:
        """A sync that reads a stream into a folder; incremental with a cursor."""
        entry: dict[str, Any] = {"name": stream}
        if cursor:
            entry |= {"mode": "incremental", "cursor": cursor, "write": "append"}
        given = {**(SMALL if self.is_own else {}), **more}
        destination = self.collector(folder, **(collector or {}))
        return self.sync(self.target.definition(**(config or {})), destination, [entry], data_dir, **given)

    def read(self, stream: str, folder: Path | None = None, **how: Any) -> Read:
        """Reads a stream to its end, and fails the case if that fails."""
        read = self.try_read(stream, folder, **how)
        succeeded(read.result)
        return read

    def try_read(self, stream: str, folder: Path | None = None, **how: Any) -> Read:
        folder = folder or self.folder()
        sync = self.prepare(stream, folder, **how)
        result = self.run(sync)
        return Read(sync, result, collected(folder, stream, full="cursor" not in how))

    def read_from(self, stream: str, cursor: str, value: CursorValue | None, **how: Any) -> Read:
        """Reads a stream from a position."""
        data_dir = self.folder()
        self.set_cursor(stream, data_dir, value)
        return self.try_read(stream, cursor=cursor, data_dir=data_dir, **how)

    def set_cursor(self, stream: str, data_dir: Path, value: CursorValue | None) -> None:
        sync = self.prepare(stream, self.folder(), cursor=ID, data_dir=data_dir)
        store = sync.store()
        try:
            now = time.time_ns() // 1_000_000
            store.move(SYNC, stream, StreamCursor(1, value, 0, now), "kit")
        finally:
            store.close()

    def stored_cursor(self, read: Read, stream: str) -> CursorValue | None:
        store = read.sync.store()
        try:
            found = store.cursor(SYNC, stream)
            return None if found is None else found.value
        finally:
            store.close()
