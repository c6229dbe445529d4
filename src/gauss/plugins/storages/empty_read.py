"""The read of a table that does not exist yet: it has no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class EmptyRead:
    """Implements `Pages`."""

    order = "there is no table yet"

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def next(self) -> pa.RecordBatch | None:
        return None

    def cancel(self) -> None:
        """No read runs."""

    def close(self) -> None:
        """Nothing is open."""
