"""Decodes single lines and decides which are bad; the decoder of batches must agree with it.

| record | meaning |
|---|---|
| a line break at its end | not part of it |
| fewer or more cells than fields | bad_csv |
| a quote inside an unquoted cell, text after a closing quote, no closing quote | bad_csv |
| a line break outside quotes, but at the end | bad_csv |
| an unquoted cell that holds what `null` says | null |
| text that is not UTF-8, in any column but one with `utf8 = false` | bad_utf8 |
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

from gauss.contracts.format import BadRecord, SourceField
from gauss.plugins.formats.csv.spec import CsvConfig
from gauss.plugins.formats.values import check, from_text, iso_text


class LineCodec:
    """Converts between lines and rows."""

    def __init__(self, config: CsvConfig, fields: list[SourceField]) -> None:
        self.delimiter, self.quote = config.delimiter.encode(), config.quote.encode()
        self.null = config.null.encode()
        self._fields = fields
        self._convert = [from_text(field.field_type, field.name) for field in fields]
        self._raw = [field.field_type.attrs.get("utf8") is False for field in fields]
        self.header = [field.name.encode() for field in fields] if config.header else None

    def decode(self, record: bytes) -> dict[str, Any] | None:
        """The row; None for the header."""
        cells = self._cells(record)
        if self.header is not None and [cell for cell, _ in cells] == self.header:
            return None
        if len(cells) != len(self._fields):
            raise BadRecord("bad_csv", f"expected {len(self._fields)} cells, found {len(cells)}")
        parts = zip(self._fields, self._convert, self._raw, cells, strict=True)
        return {field.name: self._value(convert, raw, cell, field.name) for field, convert, raw, cell in parts}

    def _value(self, convert: Any, raw: bool, cell: tuple[bytes, bool], name: str) -> Any:
        text, quoted = cell
        if not quoted and text == self.null:
            return None
        if raw:
            return text
        try:
            return convert(text.decode())
        except UnicodeDecodeError as error:
            raise BadRecord("bad_utf8", f"byte {error.start} of the cell is not UTF-8", name) from None

    def _cells(self, record: bytes) -> list[tuple[bytes, bool]]:
        """(content, whether it was quoted) of each cell."""
        for ending in (b"\r\n", b"\n", b"\r"):
            if record.endswith(ending):
                record = record[: -len(ending)]
                break
        quote, delimiter = self.quote, self.delimiter
        if not quote or quote not in record:
            if b"\n" in record or b"\r" in record:
                raise BadRecord("bad_csv", "a line break outside quotes")
            return [(cell, False) for cell in record.split(delimiter)]
        cells: list[tuple[bytes, bool]] = []
        position = 0
        while True:
            if record[position : position + 1] == quote:
                cell, position = self._quoted(record, position + 1)
                cells.append((cell, True))
            else:
                end = record.find(delimiter, position)
                cell = record[position : end if end >= 0 else len(record)]
                if quote in cell or b"\n" in cell or b"\r" in cell:
                    raise BadRecord("bad_csv", "a quote or line break inside an unquoted cell")
                cells.append((cell, False))
                position += len(cell)
            if position == len(record):
                return cells
            if record[position : position + 1] != delimiter:
                raise BadRecord("bad_csv", "text after a closing quote")
            position += 1

    def _quoted(self, record: bytes, position: int) -> tuple[bytes, int]:
        pieces = []
        while True:
            end = record.find(self.quote, position)
            if end < 0:
                raise BadRecord("bad_csv", "a quote that is not closed")
            pieces.append(record[position:end])
            if record[end + 1 : end + 2] != self.quote:
                return b"".join(pieces), end + 1
            pieces.append(self.quote)
            position = end + 2

    def encode(self, row: dict[str, Any]) -> bytes:
        """A line without its break."""
        unknown = [name for name in row if all(name != field.name for field in self._fields)]
        if unknown:
            raise ValueError(f"no column {unknown[0]}; there are {', '.join(field.name for field in self._fields)}")
        return self.delimiter.join(self._cell(row.get(field.name), field) for field in self._fields)

    def _cell(self, value: Any, field: SourceField) -> bytes:
        if value is None:
            return self.null
        check(value, field.field_type, field.name)
        text = cell_text(value, field)
        breaks = any(mark in text for mark in (self.delimiter, b"\n", b"\r"))
        # Text that reads as null is quoted; so is a lone empty cell, which would be an empty record.
        if not breaks and text != self.null and not (self.quote and self.quote in text):
            return text
        if not self.quote:
            raise ValueError(f"{field.name}: {text!r:.80} needs quoting, and quote is empty")
        return self.quote + text.replace(self.quote, self.quote * 2) + self.quote


def cell_text(value: Any, field: SourceField) -> bytes:
    """A value as the text of a cell."""
    kind = field.field_type.name
    match value:
        case bool():
            return b"true" if value else b"false"
        case float():
            if not math.isfinite(value):
                return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"
            return repr(value).encode()
        case Decimal():
            return format(value, "f").encode()
        case dt.datetime():
            return str(iso_text(value, field.field_type)).encode()
        case dt.date():
            return value.isoformat().encode()
        case int() if kind == "timestamp":
            return str(iso_text(value, field.field_type)).encode()
        case int() if kind == "time":
            return (dt.datetime.min + dt.timedelta(microseconds=value)).time().isoformat().encode()
        case bytes():
            return value if kind != "bytes" else base64.b64encode(value)
    return str(value).encode()
