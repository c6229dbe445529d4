"""Records as JSON: `{offset, ts_ms, data}`, `data` as text when it is UTF-8, else `{"base64": …}`."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow as pa

from gauss.model.errors import ConfigError
from gauss.model.units import moment, moment_ms

_encoder = msgspec.json.Encoder()

Decode = Callable[[bytes], Any]


def text_or_base64(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decoding(decode: Decode) -> Decode:
    """A format's decode that gives what it can't read as `{"error", "data"}` instead of failing the rest."""

    def one(data: bytes) -> Any:
        try:
            return decode(data)
        except ValueError as error:
            return {"error": str(error), "data": text_or_base64(data)}

    return one


def rows(batch: pa.RecordBatch, decode: Decode | None = None) -> Iterable[dict[str, Any]]:
    """A batch as objects; text is checked for the whole batch at once."""
    data = batch.column("data")
    values: list[Any]
    if decode is not None:
        values = [decode(value) for value in data.to_pylist()]
    else:
        try:
            values = data.cast(pa.string()).to_pylist()
        except pa.ArrowInvalid:
            values = [text_or_base64(value) for value in data.to_pylist()]
    offsets, times = batch.column("offset").to_pylist(), batch.column("ts_ms").to_pylist()
    return (
        {"offset": offset, "ts_ms": ts_ms, "data": value}
        for offset, ts_ms, value in zip(offsets, times, values, strict=True)
    )


def lines(batch: pa.RecordBatch, decode: Decode | None = None) -> bytes:
    """A batch as NDJSON."""
    return _encoder.encode_lines(rows(batch, decode))


def time_ms(given: str | None, name: str) -> int | None:
    """Milliseconds of an ISO time (UTC unless it says otherwise), a number of ms, or `-5m` before now."""
    if given is None or given == "":
        return None
    try:
        return moment_ms(moment(given), int(time.time() * 1000))
    except ValueError:
        raise ConfigError(
            f"{name}: expected an ISO time, milliseconds, or a duration before now (got {given!r})",
            hint="such as 2026-01-31T12:00:00Z, 1769860800000 or -5m",
        ) from None
