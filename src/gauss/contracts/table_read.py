"""Reading a table that lives elsewhere: its columns as scans see them, and one read of it as pages of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gauss.contracts.format import FieldType

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.scan.program.ir import Expr

PAGE_BYTES = 8 << 20
"""About what a reader has in hand of a table."""
PAGE_ROWS = 65_536
READ_SECONDS = 60
"""How long a table may take for a page."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    name: str
    field_type: FieldType
    """In the table's own words."""
    arrow: pa.Field
    """As scans see it."""
    sql: str
    """What is selected to get that."""
    hexadecimal: bool = False
    """It comes as the digits of its bytes."""


@dataclass(frozen=True)
class Asked:
    """What is read of a table."""

    columns: tuple[str, ...]
    times: tuple[int, int | None] | None = None
    """[from, to) of the record's time in ms."""
    where: tuple[Expr, ...] = ()
    """Conditions on rows. Those that the table's SQL has are applied there; whoever asks applies all of them again."""
    committed: Mapping[int, int] = field(default_factory=dict)
    """Incarnation → offset: rows from there on belong to an epoch that is not committed yet."""


class Pages(Protocol):
    """One read, used by one thread but for `cancel`."""

    sql: str
    """What the table is asked."""
    order: str
    """In which order rows come, for people."""

    def next(self) -> pa.RecordBatch | None:
        """The next rows, in the columns that were asked for; None: that was all. Raises as writers do."""
        ...

    def cancel(self) -> None:
        """Ends a `next` under way, from another thread."""
        ...

    def close(self) -> None: ...


class TableReader(Protocol):
    """A table as readers know it."""

    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    """Columns that tell rows apart; none: rows are only added."""
    time: str
    """The column of the record's time; empty: there is none."""
    attrs: dict[str, Any]
    """What a schema map sees of the table as a source."""

    def open(self, asked: Asked) -> Pages:
        """Connects and begins; raises Unavailable when the server is away."""
        ...

    def rows(self) -> int:
        """About how many rows there are."""
        ...
