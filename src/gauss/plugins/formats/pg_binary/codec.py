"""The pg-binary format: plain rows are decoded by columns, the others row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.format import Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, to_columns
from gauss.model.errors import ConfigError, NotFound, Unavailable
from gauss.plugins.formats.columns import merge, no_rows, select
from gauss.plugins.formats.pg_binary import batch_decoder, write
from gauss.plugins.formats.pg_binary.spec import PgBinaryConfig
from gauss.plugins.formats.pg_binary.tuples import TupleCodec


class PgBinaryFormat:
    """Tuples of COPY; `tuples.py` lists the verdicts on bad records."""

    def __init__(self, config: PgBinaryConfig) -> None:
        self._config = config
        self._known: tuple[SourceSchema, TupleCodec] | None = None

    def _described(self) -> tuple[SourceSchema, TupleCodec]:
        """The columns, requested from the server on first use; raises Unavailable if it does not answer."""
        if self._known is None:
            schema = _given(self._config) or _live(self._config)
            self._known = schema, TupleCodec(list(schema.fields))
        return self._known

    @property
    def _fields(self) -> list[SourceField]:
        return list(self._described()[0].fields)

    def schema(self) -> SourceSchema:
        return self._described()[0]

    def decode(self, data: bytes) -> dict[str, Any]:
        return self._described()[1].decode(data)

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._described()[1].encode(row)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        known = [field.name for field in self._fields]
        unknown = [name for name in rows.schema.names if name not in known]
        if unknown:
            raise ConfigError(f"pg-binary has no column {unknown[0]}", hint=f"its fields are {', '.join(known)}")
        made = write.encode(rows, self._fields)
        return made if made is not None else encode_each(self.encode, rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        plain, columns = batch_decoder.decode(data, self._fields)
        kept, rest = np.flatnonzero(plain), np.flatnonzero(~plain)
        made = select(columns, fields, len(kept)) if len(kept) else no_rows(fields)
        if not len(rest):
            return Decoded(made, kept, [])
        records = zip(rest.tolist(), data.take(pa.array(rest)).to_pylist(), strict=True)
        return merge(made, kept, to_columns(*decode_each(self.decode, records), fields))


def _given(config: PgBinaryConfig) -> SourceSchema | None:
    if config.fields is None:
        return None
    props = {"schema": config.schema_name, "table": config.table}
    if "database" in config.model_fields_set:
        props = {"database": config.database, **props}
    fields = tuple(SourceField(field.name, field.type.field_type()) for field in config.fields)
    return SourceSchema(fields, {key: value for key, value in props.items() if value is not None})


def _live(config: PgBinaryConfig) -> SourceSchema:
    if config.table is None and config.query is None:
        raise ConfigError(
            "pg-binary is told neither its fields nor a table or query that has them",
            hint="give one of them, or name the format in the input of a pg-source",
        )
    from gauss.plugins.formats.pg_binary.live_schema import PgSelection, cached_schema

    asked = PgSelection(config, config.embedded_dir, config.table, config.schema_name, config.query)
    try:
        return cached_schema(asked, config.schema_dir)
    except NotFound as error:  # the decoder waits until the table exists
        raise Unavailable(error.message, hint=error.hint) from error
