"""The csv format: the compiled walk decodes plain lines, the line codec the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.format import BadRecord, Decoded, SourceField, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each, to_columns
from gauss.model.errors import ConfigError
from gauss.plugins.formats.columns import merge, no_rows, select
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.csv.spec import CsvConfig
from gauss.plugins.formats.csv.walk_decoder import CsvWalkDecoder


class CsvFormat:
    """Lines; `line.py` lists the verdicts on bad records."""

    def __init__(self, config: CsvConfig) -> None:
        self._fields = [SourceField(field.name, field.type.field_type()) for field in config.fields]
        self._line = LineCodec(config, self._fields)
        self._batches = CsvWalkDecoder(self._fields, self._line)

    def schema(self) -> SourceSchema:
        return SourceSchema(tuple(self._fields))

    def decode(self, data: bytes) -> dict[str, Any]:
        row = self._line.decode(data)
        if row is None:
            raise BadRecord("many_rows", "the header line holds no row")
        return row

    def decode_rows(self, data: bytes) -> list[dict[str, Any]]:
        """The row of a line, none for the header."""
        row = self._line.decode(data)
        return [] if row is None else [row]

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._line.encode(row)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        known = [field.name for field in self._fields]
        unknown = [name for name in rows.schema.names if name not in known]
        if unknown:
            raise ConfigError(f"csv has no column {unknown[0]}", hint=f"its fields are {', '.join(known)}")
        from gauss.plugins.formats.csv import write  # loaded only by writers

        made = write.encode(rows, self._fields, self._line)
        return made if made is not None else encode_each(self._line.encode, rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        # Every column is checked, requested or not: a bad record is bad for every reader.
        plain, columns = self._batches.decode(data) or (np.zeros(len(data), bool), {})
        kept, rest = np.flatnonzero(plain), np.flatnonzero(~plain)
        made = select(columns, fields, len(kept)) if len(kept) else no_rows(fields)
        if not len(rest):
            return Decoded(made, kept, [])
        records = zip(rest.tolist(), data.take(pa.array(rest)).to_pylist(), strict=True)
        found, good, bad = decode_each(self._line.decode, records)
        pairs = [(index, row) for index, row in zip(good, found, strict=True) if row is not None]
        slow = to_columns([row for _, row in pairs], [index for index, _ in pairs], bad, fields)
        return merge(made, kept, slow._replace(spread=len(pairs) != len(found)))
