"""Decodes batches of lines with the compiled walk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import SourceField
from gauss.plugins.formats.cells import Cells, ColumnTypes, column_type
from gauss.plugins.formats.columns import Columns, bytes_of, is_ascii
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.csv.walk import WALK, CsvWalk

UNKNOWN_TYPE = (-1, 0, 0, 0)
"""A type whose cells are left to the line codec."""


class CsvWalkDecoder:
    """Decodes lines of some fields."""

    def __init__(self, fields: list[SourceField], codec: LineCodec) -> None:
        self._fields = [(field, arrow_type(field.field_type)) for field in fields]
        self._types = ColumnTypes.of([column_type(field.field_type) or UNKNOWN_TYPE for field in fields])
        self._delimiter, self._quote = codec.delimiter[0], codec.quote[0] if codec.quote else -1
        # Without a header, the delimiter: no unquoted cell is equal to it, and a quoted one goes to the line codec.
        header = codec.header[0] if codec.header else codec.delimiter
        self._null, self._header = np.frombuffer(codec.null, np.uint8), np.frombuffer(header, np.uint8)

    def decode(self, data: pa.BinaryArray) -> tuple[np.ndarray, Columns] | None:
        """(which records are plain, their columns); None until the walk is compiled."""
        function = WALK.compiled(len(data), data.nbytes, lambda made: self._walk(made, data.slice(0, 1)))
        if function is None:
            return None
        cells = self._walk(function, data)
        columns = {}
        for index, (field, arrow) in enumerate(self._fields):
            known = self._types.kinds[index] >= 0
            columns[field.name] = cells.column(index, field.field_type, arrow) if known else pa.nulls(len(data), arrow)
        plain = cells.suspects == 0
        if not plain.all():
            columns = {name: column.filter(pa.array(plain)) for name, column in columns.items()}
        return plain, columns

    def _walk(self, function: Callable[[CsvWalk], None], data: pa.BinaryArray) -> Cells:
        offsets, body = bytes_of(data)
        cells = Cells.of(offsets, body, self._types)
        ascii_only = is_ascii(offsets, body)
        function(CsvWalk(cells, ascii_only, self._delimiter, self._quote, self._null, self._header))
        return cells
