"""A walk over lines that vouches for the plain ones and reads their cells; machine code, see `compiled.py`.

Suspect, and left to the line codec, is whatever is malformed or of another type than declared, and beside it what is
rare: a quote inside a cell, the header, a number with an exponent, more than 18 digits, a time in another spelling than
`2026-01-02T03:04:05.678Z`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import SourceField
from gauss.plugins.formats.columns import Columns, bytes_of
from gauss.plugins.formats.compiled import Walk, utf8_end
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.walked import BOOL, EITHER, SPELLING, TEXT, Values, facts, spelled

UNKNOWN = (-1, 0, 0, 0)
"""A type whose cells are left to the line codec."""


def cell_into(  # noqa: PLR0917
    data: Any,
    start: int,
    stop: int,
    record: int,
    column: int,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
    lengths: Any,
) -> bool:
    """Reads a cell into its column; False: it is suspect."""
    kind = kinds[column]
    if kind in (TEXT, EITHER):
        out[column, record], lengths[column, record] = start, stop - start
        return True
    if kind == BOOL:
        true = stop - start == 4 and data[start] == 116 and data[start + 1] == 114 and data[start + 2] == 117
        false = stop - start == 5 and data[start] == 102 and data[start + 1] == 97 and data[start + 2] == 108
        out[column, record] = true
        return (true or (false and data[start + 3] == 115)) and data[stop - 1] == 101
    return spelled(data, start, stop, record, column, kinds, lows, highs, scales, out, reals)


def same(data: Any, start: int, stop: int, text: Any) -> bool:
    if stop - start != len(text):
        return False
    for index in range(len(text)):  # noqa: SIM110 (machine code has no generators)
        if data[start + index] != text[index]:
            return False
    return True


def walk(  # noqa: PLR0917
    data: Any,
    offsets: Any,
    ascii_only: bool,
    delimiter: int,
    quote: int,
    null: Any,
    header: Any,
    kinds: Any,
    lows: Any,
    highs: Any,
    scales: Any,
    out: Any,
    reals: Any,
    lengths: Any,
    present: Any,
    suspects: Any,
) -> None:
    """`quote` is -1 when nothing is quoted; `header` is what a first cell holds that may be a header's."""
    many = len(kinds)
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        if end > position and data[end - 1] == 10:
            end -= 1
        if end > position and data[end - 1] == 13:
            end -= 1
        fine = ascii_only or utf8_end(data, position, end) == end
        for column in range(many):
            if not fine:
                break
            quoted = position < end and data[position] == quote
            position += quoted
            start = position
            if quoted:
                while position < end and data[position] != quote:
                    position += 1
                stop = position
                position += 1
                fine = stop < end
            else:
                while position < end and data[position] != delimiter:
                    byte = data[position]
                    if byte == quote or byte == 10 or byte == 13:  # noqa: PLR1714 (a tuple would be built)
                        fine = False
                    position += 1
                stop = position
            # Behind a cell stands a delimiter, behind the last the end.
            fine = fine and (position == end if column == many - 1 else position < end and data[position] == delimiter)
            position += 1
            if column == 0 and same(data, start, stop, header):
                fine = False
            if fine and (quoted or not same(data, start, stop, null)):
                fine = cell_into(data, start, stop, record, column, kinds, lows, highs, scales, out, reals, lengths)
                present[column, record] = fine
        if not fine:
            suspects[record] = 1
            for column in range(many):
                present[column, record] = 0


WALK = Walk(walk, *SPELLING, utf8_end, cell_into, same, worth=20_000)


class Walked:
    """The walk over lines of some fields."""

    def __init__(self, fields: list[SourceField], codec: LineCodec) -> None:
        self._fields = [(field, arrow_type(field.field_type)) for field in fields]
        known = np.array([facts(field.field_type) or UNKNOWN for field in fields], np.int64)
        self._kinds, lows, highs, scales = known.T.copy()
        # Where there is no header, a text that no cell can be; quoted it may, and is looked at twice.
        first = codec.header[0] if codec.header else codec.delimiter
        texts = (np.frombuffer(text, np.uint8) for text in (codec.null, first))
        quote = codec.quote[0] if codec.quote else -1
        self._tables = (codec.delimiter[0], quote, *texts, self._kinds, lows, highs, scales)

    def decode(self, data: pa.BinaryArray) -> tuple[np.ndarray, Columns] | None:
        """(which records are plain, their columns); None: the walk is not there yet."""
        function = WALK.compiled(len(data), data.nbytes, lambda made: self._walk(made, data.slice(0, 1)))
        if function is None:
            return None
        values, body = self._walk(function, data)
        columns = {}
        for index, (field, arrow) in enumerate(self._fields):
            known = self._kinds[index] >= 0
            columns[field.name] = (
                values.column(index, field.field_type, arrow, body) if known else pa.nulls(len(data), arrow)
            )
        plain = values.suspects == 0
        if not plain.all():
            columns = {name: column.filter(pa.array(plain)) for name, column in columns.items()}
        return plain, columns

    def _walk(self, function: Callable[..., None], data: pa.BinaryArray) -> tuple[Values, np.ndarray]:
        offsets, body = bytes_of(data)
        values = Values(len(self._fields), len(data))
        ascii_only = bool(body[offsets[0] : offsets[-1]].max(initial=0) < 128)
        function(body, offsets, ascii_only, *self._tables, *values.arrays())
        return values, body
