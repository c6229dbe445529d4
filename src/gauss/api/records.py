"""Records as JSON: `{offset, ts_ms, data}`, `data` as text when it is UTF-8, else `{"base64": …}`; rows of scans."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa

from gauss.model.errors import ConfigError
from gauss.model.units import moment, moment_ms
from gauss.scan.outputs import JSON_TEXT
from gauss.scan.program.columns import WIDE

_encoder = msgspec.json.Encoder()
MOST = 2**63 - 1
"""The largest number accepted in a request."""
_MOST_DIGITS = 19

Decode = Callable[[bytes], Any]


def text_or_base64(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decoding(decode: Decode) -> Decode:
    """Decodes records; a bad record becomes `{"error", "data"}`."""

    def one(data: bytes) -> Any:
        try:
            return decode(data)
        except ValueError as error:
            return {"error": str(error), "data": text_or_base64(data)}

    return one


def rows(batch: pa.RecordBatch, decode: Decode | None = None) -> Iterable[dict[str, Any]]:
    """Records as objects."""
    place = "offset" if "offset" in batch.schema.names else "version"  # the offset of a row is its version
    offsets, times = batch.column(place).to_pylist(), batch.column("ts_ms").to_pylist()
    return (
        {"offset": offset, "ts_ms": ts_ms, "data": value}
        for offset, ts_ms, value in zip(offsets, times, decoded(batch.column("data"), decode), strict=True)
    )


def lines(batch: pa.RecordBatch, decode: Decode | None = None) -> bytes:
    """A batch as NDJSON."""
    return _encoder.encode_lines(rows(batch, decode))


def objects(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a scan as objects: bytes as text or base64, columns of JSON text as what they hold."""
    names = batch.schema.names
    columns = [_values(batch, index) for index in range(batch.num_columns)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(batch: pa.RecordBatch, index: int) -> list[Any]:
    column = batch.column(index)
    if (batch.schema.field(index).metadata or {}) == JSON_TEXT:
        return [None if value is None else msgspec.Raw(value.encode()) for value in column.to_pylist()]
    if column.type == WIDE:  # a sum beyond 64 bits: a number for JSON, text for its encoder
        return [None if value is None else msgspec.Raw(str(int(value)).encode()) for value in column.to_pylist()]
    if not pa.types.is_binary(column.type):
        values: list[Any] = column.to_pylist()
        return values
    return _texts(column)


def _texts(data: pa.BinaryArray) -> list[Any]:
    """Converts a column of bytes; UTF-8 is validated for the whole column at once."""
    try:
        values: list[Any] = data.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        values = [None if value is None else text_or_base64(value) for value in data.to_pylist()]
    return values


def object_lines(batch: pa.RecordBatch) -> bytes:
    """The rows of a scan as NDJSON."""
    return _encoder.encode_lines(objects(batch))


def entries(batch: pa.RecordBatch, decode: Decode | None, between: bytes = b",\n") -> bytes:
    """The rows of a table as the inside of one JSON object, key → row."""
    pairs = zip(batch.column("key").to_pylist(), decoded(batch.column("data"), decode), strict=True)
    return between.join(_encoder.encode(key) + b": " + _encoder.encode(row) for key, row in pairs)


def change_lines(batch: pa.RecordBatch, decode: Decode | None) -> bytes:
    """The changes of a table as NDJSON: `{key, version, ts_ms, row}`, or `{key, version, ts_ms, deleted}`."""
    if "key" not in batch.schema.names:
        return lines(batch, decode)
    kept = [batch.column(name).to_pylist() for name in ("key", "version", "ts_ms", "deleted")]
    return _encoder.encode_lines(
        {"key": key, "version": version, "ts_ms": ts_ms, **({"deleted": True} if gone else {"row": row})}
        for key, version, ts_ms, gone, row in zip(*kept, decoded(batch.column("data"), decode), strict=True)
    )


def decoded(data: pa.BinaryArray, decode: Decode | None) -> list[Any]:
    """Decodes every record with a format, else as text."""
    return _texts(data) if decode is None else [decode(value) for value in data.to_pylist()]


def whole_number(given: str, name: str, *, least: int = 0) -> int:
    """Parses a 64-bit integer of a request. Raises ConfigError."""
    digits = given.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS:
        number = int(given)
        if least <= number <= MOST:
            return number
    raise ConfigError(f"{name}: expected an integer >= {least} (got {given[:40]!r})")


def time_ms(given: str | None, name: str) -> int | None:
    """Parses a time to ms: ISO 8601 (default UTC), Unix ms, or relative (`-5m`)."""
    if given is None or given == "":
        return None
    try:
        return moment_ms(moment(given), int(time.time() * 1000))
    except ValueError:
        raise ConfigError(
            f"{name}: expected an ISO 8601 time, Unix milliseconds, or a relative time (got {given[:40]!r})",
            hint="such as 2026-01-31T12:00:00Z, 1769860800000 or -5m",
        ) from None
