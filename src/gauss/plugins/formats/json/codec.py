"""The json format.

A batch is decoded by the compiled walk (`walk_decoder.py`), before that is compiled or if it leaves many records by
polars (`polars_decoder.py`), and its suspects one by one (`row_decoder.py`). All give the same answer for a record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from gauss.contracts.format import Decoded, FieldType, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each
from gauss.plugins.formats.json import encode as encoding
from gauss.plugins.formats.json import walk_decoder
from gauss.plugins.formats.json.merge import merge
from gauss.plugins.formats.json.non_finite import NonFinite
from gauss.plugins.formats.json.plan import Found, JsonColumn, are_plain, column, path_parts, type_of
from gauss.plugins.formats.json.row_decoder import RowDecoder
from gauss.plugins.formats.json.spec import JsonConfig, JsonType

CHUNK = 65_536
"""Records decoded at once. One bad record makes polars refuse them all; a task's block has as many."""

FEW = 32
"""Up to this many records (and bytes) decoding one by one is faster than setting up columns."""
FEW_BYTES = 64 << 10
MANY_SUSPECTS = 0.1
"""Share of suspects of the walk above which polars is tried."""


class _Plan(NamedTuple):
    """The decoders of some columns."""

    columns: list[JsonColumn]
    rows: RowDecoder
    tables: walk_decoder.JsonTables | None
    plain: bool
    """Whether no name needs an escape: polars and the walk find only such."""


class JsonFormat:
    """JSON objects; `row_decoder.py` lists the verdicts on bad records."""

    def __init__(self, config: JsonConfig) -> None:
        self._fields = config.fields
        self._columns = None if config.fields is None else [column(f.name, f.type) for f in config.fields]
        self._types = {f.name: f.type for f in config.fields or []}
        self._plans: dict[Any, _Plan] = {}
        self._rows = None if self._columns is None else RowDecoder(self._columns)
        self._objects = RowDecoder([])
        self._non_finite = NonFinite(config.non_finite)

    def schema(self) -> SourceSchema | None:
        """The configured fields, if any."""
        if self._fields is None:
            return None
        return SourceSchema(tuple(SourceField(f.name, FieldType(f.type.name, f.type.attrs)) for f in self._fields))

    def decode(self, data: bytes) -> dict[str, Any]:
        """The fields of a record; without `fields` in the config the whole object."""
        if self._rows is not None:
            assert self._columns is not None
            return dict(zip((entry.name for entry in self._columns), self._rows.decode(data), strict=True))
        self._objects.decode(data)
        found: dict[str, Any] = msgspec.json.decode(data)
        return found

    def encode(self, row: dict[str, Any]) -> bytes:
        """A row as an object; paths become nested objects."""
        self._non_finite.judge_row(row)
        return encoding.encode_row(row, self._types)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Rows as objects."""
        self._non_finite.judge(rows)
        return encoding.encode_batch(rows, encoding.with_texts(self._types, rows.schema))

    def merge_batch(self, rest: pa.BinaryArray, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Objects with some fields replaced or added; all others keep their bytes."""
        self._non_finite.judge(rows)
        return merge(rest, rows, encoding.with_texts(self._types, rows.schema))

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        """The named fields of a batch; `fields` gives the types that the config does not."""
        plan = self._plan(fields)
        columns = plan.columns
        batches: list[pa.RecordBatch] = []
        good: list[np.ndarray] = []
        bad: list[tuple[int, str, str]] = []
        for start in range(0, len(data), CHUNK):
            chunk = data.slice(start, CHUNK)
            arrays, indexes, verdicts = _decode_chunk(chunk, plan)
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=_schema(columns)))
            good.append(indexes + start)
            bad.extend((index + start, reason, detail) for index, reason, detail in verdicts)
        if not batches:
            empty = [pa.array([], entry.arrow) for entry in columns]
            return Decoded(pa.RecordBatch.from_arrays(empty, schema=_schema(columns)), np.zeros(0, np.int64), [])
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return Decoded(rows, np.concatenate(good), bad)

    def _plan(self, fields: pa.Schema) -> _Plan:
        key = tuple((field.name, field.type, (field.metadata or {}).get(b"gauss")) for field in fields)
        if key not in self._plans:
            columns = [self._column(field) for field in fields]
            plain = are_plain(columns)
            self._plans[key] = _Plan(
                columns, RowDecoder(columns), walk_decoder.make_tables(columns) if plain else None, plain
            )
        return self._plans[key]

    def _column(self, field: pa.Field) -> JsonColumn:
        if field.name in self._types:
            return column(field.name, self._types[field.name])
        # A field without a declared type: by the Arrow type, or any value as its text.
        match (field.metadata or {}).get(b"gauss"):
            case b"json":
                type_ = JsonType(name="json")
            case b"json array":
                type_ = JsonType(name="array", attrs={"element": "json"})
            case _:
                type_ = type_of(field.type)
        return JsonColumn(field.name, path_parts(field.name), type_, field.type)


def _schema(columns: list[JsonColumn]) -> pa.Schema:
    return pa.schema([pa.field(entry.name, entry.arrow) for entry in columns])


Chunk = tuple[list[pa.Array], np.ndarray, list[tuple[int, str, str]]]


def _decode_chunk(data: pa.BinaryArray, plan: _Plan) -> Chunk:
    found = _decode_plain(data, plan) if len(data) > FEW or data.nbytes > FEW_BYTES else None
    if found is None:
        return _decode_rows(data, np.arange(len(data)), plan)
    if found.suspects is None:
        return found.columns, np.arange(len(data)), []
    kept = np.flatnonzero(~found.suspects)
    arrays, indexes, verdicts = _decode_rows(data, np.flatnonzero(found.suspects), plan)
    order = np.argsort(np.concatenate([kept, indexes]), kind="stable")
    merged = [
        pa.concat_arrays([fast_values.take(pa.array(kept)), slow_values]).take(pa.array(order))
        for fast_values, slow_values in zip(found.columns, arrays, strict=True)
    ]
    return merged, np.sort(np.concatenate([kept, indexes])), verdicts


def _decode_plain(data: pa.BinaryArray, plan: _Plan) -> Found | None:
    """The columns by the walk or by polars, with suspects; None if both refuse the batch."""
    found = walk_decoder.decode(data, plan.columns, plan.tables) if plan.tables is not None else None
    if found is not None and (found.suspects is None or found.suspects.mean() < MANY_SUSPECTS):
        return found
    # polars is loaded where records are decoded, not where formats are only named.
    from gauss.plugins.formats.json import polars_decoder

    other = (
        polars_decoder.decode(data, plan.columns) if plan.plain and polars_decoder.can_decode(plan.columns) else None
    )
    return other if other is not None else found


def _decode_rows(data: pa.BinaryArray, indexes: np.ndarray, plan: _Plan) -> Chunk:
    records = zip(indexes.tolist(), data.take(pa.array(indexes)).to_pylist(), strict=True)
    rows, good, bad = decode_each(plan.rows.decode, records)
    values = list(zip(*rows, strict=True)) if rows else [()] * len(plan.columns)
    arrays = [pa.array(list(column), entry.arrow) for column, entry in zip(values, plan.columns, strict=True)]
    return arrays, np.array(good, dtype=np.int64), bad
