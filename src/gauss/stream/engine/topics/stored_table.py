"""The external table of a topic as a source of scans: `query` and `snapshot`, by SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gauss.contracts.cursor import Agg, Capabilities, Cursor, Mode, Narrow, Output, Program, Seq, TimeRange
from gauss.contracts.table_read import TableReader, TableReadRequest
from gauss.model.errors import ConfigError
from gauss.scan.sources import SourceTask
from gauss.stream.engine.topics.stored_table_cursor import StoredCursor

if TYPE_CHECKING:
    from gauss.contracts.format import Format

CAPABILITIES = Capabilities(
    views=frozenset({Seq, TimeRange, Agg}),
    outputs=frozenset({Output.ROWS, Output.COLUMNAR, Output.SCALAR}),
    live=False,
    max_fuel_scan=1 << 63,
)


class StoredTable:
    """Implements `contracts.cursor.Provider`. Its version is the offset up to which the inbox is in the table."""

    def __init__(
        self,
        name: str,
        inc: int,
        build: Callable[[], TableReader],
        *,
        committed: Callable[[], Mapping[int, int]],
    ) -> None:
        """`build` loads the table's plugin, which is heavy: it is called when somebody first reads."""
        self.name, self.inc = name, inc
        self.capabilities = CAPABILITIES
        self._build = build
        self._built: TableReader | None = None
        self._committed = committed
        self._highest: dict[int, int] = {}
        self.source = SourceTask(name, self)

    @property
    def reader(self) -> TableReader:
        if self._built is None:
            self._built = self._build()
        return self._built

    def candidates(self) -> pa.Schema:
        return pa.schema([column.arrow for column in self.reader.columns])

    def format(self) -> Format | None:
        return None

    def version(self) -> int:
        return self.committed().get(self.inc, 0)

    def floor(self) -> int:
        return 0

    def committed(self) -> dict[int, int]:
        """The offsets below which all rows are in the table. A seek of the reader does not lower them."""
        for inc, offset in self._committed().items():
            self._highest[inc] = max(offset, self._highest.get(inc, 0))
        return dict(self._highest)

    def open(self, program: Program) -> Cursor:
        return self.open_narrow(program, Narrow())

    def open_narrow(self, program: Program, narrow: Narrow) -> Cursor:
        """Conditions and columns are pushed into SQL as far as its semantics are the same."""
        if program.mode is Mode.LIVE:
            raise ConfigError(
                f'topic "{self.name}" is an external table and can\'t be read live',
                hint="read it by snapshot or query, or read the topic that feeds it",
            )
        committed = self.committed()
        asked = TableReadRequest(self._columns(narrow), self._times(program), narrow.where, committed)
        version = committed.get(self.inc, 0)
        return StoredCursor(self.name, self.reader, asked, version=version)

    def _columns(self, narrow: Narrow) -> tuple[str, ...]:
        names = tuple(column.name for column in self.reader.columns)
        if narrow.fields is None:
            return names
        # A batch without columns has no length.
        return tuple(name for name in names if name in narrow.fields) or names[-1:]

    def _times(self, program: Program) -> tuple[int, int | None] | None:
        match program.view:
            case Seq(start=None):
                return None
            case Seq(start=start):
                raise ConfigError(f"expected no start, found {start}: a table is read in its current state")
            case TimeRange(start_ms=start, stop_ms=stop):
                if stop is not None and start > stop:
                    raise ConfigError(f"expected from ≤ to, found [{start}, {stop})")
                if not self.reader.time and (start > 0 or stop is not None):
                    raise ConfigError(
                        f'the table of topic "{self.name}" has no column with the record\'s time',
                        hint="add a column ts_ms to its schema map, or read all rows: seq",
                    )
                return (start, stop) if self.reader.time else None
            case view:
                raise ConfigError(f"an external table can't be read by {type(view).__name__}", hint="seq, range of ts")

    def wait(self, version: int, timeout: float) -> int:  # noqa: ARG002 (nobody may read it live)
        return self.version()

    def offset_at(self, ts_ms: int) -> int:
        raise ConfigError(f'topic "{self.name}" has no offset at {ts_ms}: it is an external table')

    def stats(self) -> dict[str, Any]:
        return {"records": self.reader.rows()}
