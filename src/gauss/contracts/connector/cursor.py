"""Typed positions in a stream."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from gauss.contracts.connector.json_form import I32, I64, Variant


class CursorType(StrEnum):
    INT64 = "int64"
    UTF8 = "utf8"
    TIMESTAMP_MILLIS = "timestamp_millis"
    TIMESTAMP_MICROS = "timestamp_micros"
    DECIMAL = "decimal"
    JSON = "json"


class CursorValue(Variant):
    """The value of a cursor field, or a connector's own position as JSON."""


class NullCursor(CursorValue, tag="null"):
    pass


class Int64Cursor(CursorValue, tag="int64"):
    value: I64


class Utf8Cursor(CursorValue, tag="utf8"):
    value: str


class TimestampMillisCursor(CursorValue, tag="timestamp_millis"):
    value: I64


class TimestampMicrosCursor(CursorValue, tag="timestamp_micros"):
    value: I64


class DecimalCursor(CursorValue, tag="decimal"):
    value: str
    scale: I32


class JsonCursor(CursorValue, tag="json"):
    value: Any


class CursorInfo(msgspec.Struct, frozen=True):
    """The cursor of an incremental or CDC stream."""

    cursor_field: str
    cursor_type: CursorType
    last_value: CursorValue | None = None
    """Where the last run ended; None before the first."""
