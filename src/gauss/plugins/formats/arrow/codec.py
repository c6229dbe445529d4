"""The arrow format: each record is an IPC stream, and has the rows of its batches.

| record | meaning |
|---|---|
| malformed, truncated, or with offsets or text that do not hold together | bad_arrow |
| a column of the schema that is not there | missing_field |
| a column of another type, if its values can't become the asked type exactly | wrong_type |
| columns that are not in the schema | passed over |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.decode_budget import DecodeBudget
from gauss.contracts.field_types import arrow_field, type_of
from gauss.contracts.format import BadRecord, Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each
from gauss.model.errors import ConfigError
from gauss.plugins.formats.arrow.sizes import declared_bytes, expanded_bytes
from gauss.plugins.formats.arrow.spec import ArrowConfig
from gauss.plugins.formats.columns import adapt, no_rows, select

FILE_MAGIC = b"ARROW1"
MOST_COLUMNS = 10_000
_TROUBLE = (pa.ArrowException, ValueError, OSError, OverflowError, MemoryError)


class ArrowFormat:
    """Arrow IPC."""

    def __init__(self, config: ArrowConfig) -> None:
        self._native = None if config.schema_file is None else _read_schema(config)
        self._source = None
        self._most = config.max_decoded_bytes
        if self._native is not None:
            self._source = SourceSchema(tuple(SourceField(f.name, type_of(f.type)) for f in self._native))

    def schema(self) -> SourceSchema | None:
        return self._source

    def decode(self, data: bytes) -> dict[str, Any]:
        """The only row of a record; raises BadRecord if it has several."""
        rows = self.decode_rows(data)
        if len(rows) != 1:
            raise BadRecord("many_rows", f"the record holds {len(rows)} rows")
        return rows[0]

    def decode_rows(self, data: bytes) -> list[dict[str, Any]]:
        """Every row of a record."""
        batch = self._open(pa.py_buffer(data), DecodeBudget(self._most))
        rows: list[dict[str, Any]] = batch.to_pylist()
        return rows

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        budget = DecodeBudget(self._most)

        def decode(record: pa.BinaryScalar) -> pa.RecordBatch:
            batch = self._open(record.as_buffer(), budget)
            return _typed(dict(zip(batch.schema.names, batch.columns, strict=True)), fields, len(batch))

        batches, records, bad = decode_each(decode, enumerate(data))  # a loop over batches, not rows
        if not batches:
            return Decoded(no_rows(fields), np.zeros(0, np.int64), bad)
        counts = [len(batch) for batch in batches]
        good = np.repeat(np.array(records, np.int64), counts)
        return Decoded(pa.concat_batches(batches), good, bad, any(count != 1 for count in counts))

    def encode(self, row: dict[str, Any]) -> bytes:
        schema = self._native if self._native is not None else pa.RecordBatch.from_pylist([row]).schema
        unknown = [name for name in row if schema.get_field_index(name) < 0]
        if unknown:
            raise ValueError(f"no column {unknown[0]} in the schema")
        if self._source is None:
            return _stream(pa.RecordBatch.from_pylist([row], schema=schema))
        columns = [arrow_field(field) for field in self._source.fields]
        return self._write(pa.RecordBatch.from_pylist([row], schema=pa.schema(columns)))

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """All rows as one record."""
        try:
            return pa.array([self._write(rows)] if len(rows) else [], pa.binary())
        except _TROUBLE:
            encode_each(self.encode, rows)  # raises with the bad rows
            raise

    def _write(self, rows: pa.RecordBatch) -> bytes:
        if self._native is None:
            return _stream(rows)
        arrays = []
        for field in self._native:
            at = rows.schema.get_field_index(field.name)
            arrays.append(adapt(rows.column(at), field.type) if at >= 0 else pa.nulls(len(rows), field.type))
        unknown = [name for name in rows.schema.names if self._native.get_field_index(name) < 0]
        if unknown:
            known = ", ".join(self._native.names)
            raise ConfigError(f"the Arrow schema has no column {unknown[0]}", hint=f"it has {known}")
        return _stream(pa.RecordBatch.from_arrays(arrays, schema=self._native))

    def _open(self, record: pa.Buffer, budget: DecodeBudget) -> pa.RecordBatch:
        """The rows of a record in Spark's types."""
        table = _read(record, budget.most)
        types = {field.name: _type(field) for field in table.schema}
        budget.take(max(table.nbytes, sum(map(expanded_bytes, table.columns))), table.num_rows)
        if self._source is None:
            fields = [SourceField(field.name, types[field.name]) for field in table.schema]
        else:
            fields = list(self._source.fields)
        columns = {}
        for field in fields:
            if table.schema.get_field_index(field.name) < 0:
                raise BadRecord("missing_field", "not in the record's schema", field.name)
            columns[field.name] = _column(table.column(field.name), arrow_field(field).type, field.name)
        return select(columns, pa.schema([arrow_field(field) for field in fields]), table.num_rows)


def _read(record: pa.Buffer, most: int) -> pa.Table:
    """The validated table of a record; raises BadRecord, also if it would take more than `most` bytes."""
    is_file = record.size >= 6 and record.slice(0, 6).to_pybytes() == FILE_MAGIC
    DecodeBudget(most).take(declared_bytes(memoryview(record).cast("B"), is_file=is_file))
    try:
        reader = pa.ipc.open_file(record) if is_file else pa.ipc.open_stream(record)
        if len(reader.schema) > MOST_COLUMNS:
            raise ValueError(f"{len(reader.schema)} columns: expected at most {MOST_COLUMNS}")
        table = reader.read_all()
        _check_decimals(table.schema)
        table.validate(full=True)
        return table.combine_chunks()
    except _TROUBLE as error:
        raise BadRecord("bad_arrow", str(error).split("\n", 1)[0]) from None


def _check_decimals(fields: Any) -> None:
    """Rejects absurd decimal scales: Arrow does not check them, and reads out of bounds when it casts such values."""
    for field in fields:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
            raise ValueError(f"column {field.name} is a decimal of {kind.precision} digits with scale {kind.scale}")
        _check_decimals(kind.field(index) for index in range(kind.num_fields))


def _read_schema(config: ArrowConfig) -> pa.Schema:
    assert config.schema_file is not None
    try:
        content = config.schema_file.read_bytes()
        if content.startswith(FILE_MAGIC):
            return pa.ipc.open_file(content).schema
        try:
            return pa.ipc.open_stream(content).schema
        except pa.ArrowException:
            return pa.ipc.read_schema(pa.py_buffer(content))
    except _TROUBLE as error:
        raise ConfigError(
            f"{config.schema_file} has no Arrow schema: {error}", hint="expected an Arrow file, stream or schema"
        ) from error


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _type(field: pa.Field) -> Any:
    try:
        return type_of(field.type)
    except ConfigError as error:
        raise BadRecord("wrong_type", error.message, field.name) from None


def _column(values: Any, kind: pa.DataType, name: str) -> pa.Array:
    try:
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if isinstance(flat, pa.ChunkedArray):
            flat = pa.concat_arrays(flat.chunks) if flat.num_chunks else pa.array([], flat.type)
        return adapt(flat, kind)
    except _TROUBLE as error:
        raise BadRecord(
            "wrong_type", f"{values.type} cannot be read as {kind}: {str(error).split(chr(10), 1)[0]}", name
        ) from None


def _typed(columns: dict[str, pa.Array], fields: pa.Schema, count: int) -> pa.RecordBatch:
    try:
        return select(columns, fields, count)
    except BadRecord as error:
        raise BadRecord("missing_field", error.detail, error.column) from None
    except _TROUBLE as error:
        raise BadRecord("wrong_type", str(error).split("\n", 1)[0]) from None
