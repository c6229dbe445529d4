"""Provides the rows of a table as candidates of scans."""

from __future__ import annotations

import pyarrow as pa

from gauss.contracts.cursor import Cursor, Program
from gauss.contracts.format import Format
from gauss.contracts.storage import Table


class TableProvider:
    """Implements `contracts.cursor.Provider` over the newest record of each key."""

    def __init__(self, table: Table) -> None:
        self.inc = table.inc
        self.capabilities = table.capabilities
        self._table = table

    def candidates(self) -> pa.Schema:
        return self._table.candidates()

    def format(self) -> Format | None:
        return self._table.format()

    def version(self) -> int:
        return self._table.end

    def floor(self) -> int:
        return self._table.floor

    def open(self, program: Program) -> Cursor:
        return self._table.open(program)
