"""The auto format: detects the format of each record from its first bytes.

Text cells of csv are given as text; a column that is asked for as a number is read as one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.field_types import type_of
from gauss.contracts.format import BadRecord, Decoded, SourceSchema
from gauss.contracts.format_batch import decode_each, find, to_columns
from gauss.plugins.formats.arrow.codec import ArrowFormat
from gauss.plugins.formats.arrow.spec import ArrowConfig
from gauss.plugins.formats.auto.spec import AutoFormatConfig
from gauss.plugins.formats.avro.codec import AvroFormat
from gauss.plugins.formats.avro.spec import AvroConfig
from gauss.plugins.formats.columns import merge, no_rows
from gauss.plugins.formats.csv.line import LineCodec
from gauss.plugins.formats.csv.spec import CsvConfig
from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.spec import JsonConfig
from gauss.plugins.formats.values import RANGES, from_text

Row = dict[str, Any]
_SPACE = b" \t\r\n"


def detect(record: bytes) -> str:
    """`json`, `avro`, `arrow` or `csv`, by the first bytes; raises BadRecord if it is none of them."""
    head = record[:64].lstrip(_SPACE)
    if head[:1] == b"{":
        return "json"
    if record.startswith(b"Obj\x01"):
        return "avro"
    if record.startswith((b"\xff\xff\xff\xff", b"ARROW1")):
        return "arrow"
    if head and not any(byte < 32 and byte not in b"\t\r\n" for byte in head):
        return "csv"
    found = "nothing" if not head else repr(head[:8])
    raise BadRecord("unknown_format", f"expected json, csv, an avro container or arrow, found {found}")


class AutoFormat:
    """Records of any of four formats."""

    def __init__(self, config: AutoFormatConfig) -> None:
        self._config = config
        self._json, self._avro, self._arrow = (
            JsonFormat(JsonConfig()),
            AvroFormat(AvroConfig()),
            ArrowFormat(ArrowConfig()),
        )

    def schema(self) -> SourceSchema | None:
        """None: the formats are self-describing."""

    def decode(self, data: bytes) -> Row:
        kind = detect(data)
        if kind == "csv":
            return self._line(data)
        found: Row = {"json": self._json, "avro": self._avro, "arrow": self._arrow}[kind].decode(data)  # type: ignore[attr-defined]
        return found

    def encode(self, row: Row) -> bytes:
        """A row as json."""
        return self._json.encode(row)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return self._json.encode_batch(rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        kinds, good, bad = decode_each(detect, enumerate(data.to_pylist()))
        parts = [Decoded(no_rows(fields), np.zeros(0, np.int64), bad)]
        for kind in sorted(set(kinds)):
            places = np.array([index for index, found in zip(good, kinds, strict=True) if found == kind], np.int64)
            some = self._decode_as(kind, data.take(pa.array(places)), fields)
            wrong = [(int(places[index]), reason, detail) for index, reason, detail in some.bad]
            parts.append(Decoded(some.rows, places[some.good], wrong, some.spread))
        return functools.reduce(_together, parts)

    def _decode_as(self, kind: str, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        if kind == "json":
            return self._json.decode_batch(data, fields)
        if kind == "avro":
            return self._avro.decode_batch(data, fields)
        if kind == "arrow":
            return self._arrow.decode_batch(data, fields)
        convert = [(field.name, _typed(field)) for field in fields]

        def line(record: bytes) -> Row:
            row = self._line(record)
            return {name: None if (text := find(row, name)) is None else to(text) for name, to in convert}

        return to_columns(*decode_each(line, enumerate(data.to_pylist())), fields)

    def _line(self, record: bytes) -> Row:
        delimiter = self._config.delimiter or _delimiter(record)
        names = self._config.columns or [f"c{index}" for index in range(_cells(record, delimiter))]
        row = _codec(tuple(names), delimiter).decode(record)
        assert row is not None
        return row


@functools.lru_cache(maxsize=1_000)
def _codec(names: tuple[str, ...], delimiter: str) -> LineCodec:
    from gauss.contracts.format import FieldType, SourceField

    config = CsvConfig.model_validate({"fields": [{"name": name} for name in names], "delimiter": delimiter})
    return LineCodec(config, [SourceField(name, FieldType("string")) for name in names])


def _delimiter(record: bytes) -> str:
    return max(",;\t|", key=lambda mark: record.count(mark.encode()))


def _cells(record: bytes, delimiter: str) -> int:
    """Number of cells of a line; delimiters in quotes do not count."""
    return b"".join(record.split(b'"')[::2]).count(delimiter.encode()) + 1


def _typed(field: pa.Field) -> Any:
    kind = type_of(field.type)
    return from_text(kind, field.name) if kind.name in (*RANGES, "float", "double", "bool", "decimal") else str


def _together(one: Decoded, other: Decoded) -> Decoded:
    merged = merge(one.rows, one.good, other)
    return Decoded(merged.rows, merged.good, sorted([*one.bad, *other.bad]), one.spread or other.spread)
