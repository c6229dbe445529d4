"""Reading external tables: their columns as seen by scans, and reads as pages of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gauss.contracts.format import FieldType

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.expression import Expr

PAGE_BYTES = 8 << 20
"""Approximate memory of a read."""
PAGE_ROWS = 65_536
READ_SECONDS = 60
"""Timeout of a page."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    name: str
    field_type: FieldType
    """Native type of the table's system."""
    arrow: pa.Field
    """Arrow type in scans."""
    sql: str
    """SQL expression that is selected."""
    hexadecimal: bool = False
    """Whether the value is sent as hex digits of its bytes."""


@dataclass(frozen=True)
class TableReadRequest:
    """Request to read a table."""

    columns: tuple[str, ...]
    times: tuple[int, int | None] | None = None
    """Range [from, to) of the record's time in ms."""
    where: tuple[Expr, ...] = ()
    """Conditions on rows. Those that SQL can express are applied by the table; the caller applies all of them again."""
    committed: Mapping[int, int] = field(default_factory=dict)
    """Incarnation → offset from which rows belong to an uncommitted epoch."""


class Pages(Protocol):
    """One read. Used by one thread, except for `cancel`."""

    sql: str
    """The SQL of the read."""
    order: str
    """The order of rows, for display."""

    def next(self) -> pa.RecordBatch | None:
        """The next rows, with the requested columns. `None` at the end. Raises the same errors as writers."""
        ...

    def cancel(self) -> None:
        """Aborts a running `next` from another thread."""
        ...

    def close(self) -> None: ...


class TableReader(Protocol):
    """Reads one external table."""

    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    """Columns of the key. Empty: rows are only added."""
    time: str
    """The column of the record's time. Empty if there is none."""
    attrs: dict[str, Any]
    """The schema of the table as the source of a schema map."""

    def open(self, asked: TableReadRequest) -> Pages:
        """Connects and starts a read. Raises Unavailable if the server is down."""
        ...

    def rows(self) -> int:
        """Approximate number of rows."""
        ...
