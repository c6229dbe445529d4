"""The pg-binary format: whole columns where the rows are plain, the rest row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.format import Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, to_columns
from gauss.model.errors import ConfigError
from gauss.plugins.formats.columns import merge, no_rows, select
from gauss.plugins.formats.pg_binary import fast, write
from gauss.plugins.formats.pg_binary.spec import PgBinaryConfig
from gauss.plugins.formats.pg_binary.tuples import TupleCodec


class PgBinaryFormat:
    """COPY's tuples; see `tuples.py` for what each kind of bad record means."""

    def __init__(self, config: PgBinaryConfig) -> None:
        self._fields = [SourceField(field.name, field.type.field_type()) for field in config.fields]
        told = {"database": config.database, "schema": config.schema_name, "table": config.table}
        self._attrs = {key: value for key, value in told.items() if value is not None}
        self._one = TupleCodec(self._fields)

    def schema(self) -> SourceSchema:
        return SourceSchema(tuple(self._fields), self._attrs)

    def decode(self, data: bytes) -> dict[str, Any]:
        return self._one.decode(data)

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._one.encode(row)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        known = [field.name for field in self._fields]
        unknown = [name for name in rows.schema.names if name not in known]
        if unknown:
            raise ConfigError(f"pg-binary has no column {unknown[0]}", hint=f"its fields are {', '.join(known)}")
        made = write.encode(rows, self._fields)
        return made if made is not None else encode_each(self._one.encode, rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        plain, columns = fast.decode(data, self._fields)
        kept, rest = np.flatnonzero(plain), np.flatnonzero(~plain)
        made = select(columns, fields, len(kept)) if len(kept) else no_rows(fields)
        if not len(rest):
            return Decoded(made, kept, [])
        records = zip(rest.tolist(), data.take(pa.array(rest)).to_pylist(), strict=True)
        return merge(made, kept, to_columns(*decode_each(self._one.decode, records), fields))
