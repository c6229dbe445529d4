"""Arrow columns as the text of Postgres' input functions, for COPY in text form and INSERT."""

from __future__ import annotations

from binascii import hexlify

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.postgres.types import canonical
from gauss.clients.postgres.wire import wire_column
from gauss.contracts.format import FieldType

_TEXT = FieldType("TEXT")


def text_column(name: str, values: pa.ChunkedArray, field_type: FieldType) -> pa.ChunkedArray:
    """The same values that `wire_column` sends, as text; raises RowError for a value that does not fit the type."""
    wanted = canonical(field_type)
    if wanted.name == "JSONB":
        return wire_column(name, values, _TEXT)[0]
    column, _ = wire_column(name, values, field_type)
    kind, kinds = column.type, pa.types
    if kinds.is_timestamp(kind) and wanted.attrs.get("timezone"):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return _dates(column)
    if kinds.is_duration(kind):
        return pc.binary_join_element_wise(column.cast(pa.int64()).cast(pa.string()), " microseconds", "")
    if kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind):
        digits = _hex(column.combine_chunks().cast(pa.binary()))
        return pa.chunked_array([digits if wanted.name == "UUID" else pc.binary_join_element_wise("\\x", digits, "")])
    return wire_column(name, column, _TEXT)[0]


def _dates(values: pa.ChunkedArray) -> pa.ChunkedArray:
    text = values.cast(pa.string())
    years = pc.year(values)
    if not pc.any(pc.less(years, 1)).as_py():
        return text
    # Arrow writes 44 BC as -043; Postgres counts years before Christ from 1.
    places = pc.indices_nonzero(pc.fill_null(pc.less(years, 1), False)).to_pylist()
    shown = text.to_pylist()
    for place in places:
        _, _, rest = shown[place].lstrip("-").partition("-")
        shown[place] = f"{1 - years[place].as_py():04d}-{rest.removesuffix('Z')} BC"
    if pa.types.is_timestamp(values.type) and values.type.tz:
        for place in places:
            shown[place] = shown[place].replace(" BC", "Z BC")
    return pa.chunked_array([pa.array(shown, pa.string())])


def _hex(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as hexadecimal digits, all rows at once."""
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = int(places[0]), int(places[-1])
    digits = hexlify(memoryview(data)[first:last]) if data is not None else b""
    doubled = pa.py_buffer(((places.astype(np.int64) - first) * 2).tobytes())
    mask = pa.array(values.is_valid().to_numpy(zero_copy_only=False)).buffers()[1] if values.null_count else None
    made = pa.LargeStringArray.from_buffers(len(values), doubled, pa.py_buffer(digits), mask)
    return made.cast(pa.string())
