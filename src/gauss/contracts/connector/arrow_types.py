"""Names of Arrow types in `ColumnSchema.data_type`: `Int64`, `Timestamp(Microsecond, UTC)`, `List(Utf8)`.

The spelling is that of Rust's arrow crate. A time without a zone is `Timestamp(Microsecond)`; a struct is
`Struct(a: Int64, b: Utf8)`, with names quoted as JSON where they are not words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import ColumnSchema

_PLAIN: dict[str, pa.DataType] = {
    "Null": pa.null(), "Boolean": pa.bool_(),
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
    "Float16": pa.float16(), "Float32": pa.float32(), "Float64": pa.float64(),
    "Utf8": pa.string(), "LargeUtf8": pa.large_string(), "Utf8View": pa.string_view(),
    "Binary": pa.binary(), "LargeBinary": pa.large_binary(), "BinaryView": pa.binary_view(),
    "Date32": pa.date32(), "Date64": pa.date64(), "Interval(MonthDayNano)": pa.month_day_nano_interval(),
}  # fmt: skip
_NAMES = {kind: name for name, kind in _PLAIN.items()}
_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_UNIT_NAMES = {short: name for name, short in _UNITS.items()}
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(-?\w+)|([(),:]))', re.ASCII)
_ZONE = re.compile(r"\s*([A-Za-z0-9_+:/-]+)\s*(?=\))")


def type_name(kind: pa.DataType) -> str:
    """The name of a type; raises ConnectorError for one that has none."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_timestamp(kind):
        zone = f", {kind.tz}" if kind.tz else ""
        return f"Timestamp({_UNIT_NAMES[kind.unit]}{zone})"
    if pa.types.is_time(kind):
        return f"Time{kind.bit_width}({_UNIT_NAMES[kind.unit]})"
    if pa.types.is_duration(kind):
        return f"Duration({_UNIT_NAMES[kind.unit]})"
    if pa.types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    if pa.types.is_map(kind):
        return f"Map({type_name(kind.key_type)}, {type_name(kind.item_type)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        large = "Large" if pa.types.is_large_list(kind) else ""
        return f"{large}List({type_name(kind.value_type)})"
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{_field_name(each.name)}: {type_name(each.type)}" for each in kind.fields)
        return f"Struct({fields})"
    if pa.types.is_dictionary(kind):
        return f"Dictionary({type_name(kind.index_type)}, {type_name(kind.value_type)})"
    raise ConnectorError.schema("UNKNOWN_TYPE", f"the Arrow type {kind} has no name in a catalog")


def arrow_type(name: str) -> pa.DataType:
    """The type of a name; raises ConnectorError."""
    parser = _Parser(name)
    found = parser.type()
    parser.end()
    return found


def arrow_schema(columns: list[ColumnSchema]) -> pa.Schema:
    """The Arrow schema of a catalog's columns; raises ConnectorError."""
    return pa.schema([pa.field(each.name, arrow_type(each.data_type), each.nullable) for each in columns])


def column_schemas(schema: pa.Schema) -> list[ColumnSchema]:
    """The columns of an Arrow schema, for a catalog."""
    return [ColumnSchema(each.name, type_name(each.type), each.nullable) for each in schema]


def _unquoted(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConnectorError.schema("BAD_TYPE", f"the name {text} is not JSON") from error


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else json.dumps(name)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def type(self) -> pa.DataType:
        name = self._word()
        if name in _PLAIN:
            return _PLAIN[name]
        build = self._builders().get(name)
        if build is None:
            raise self._fault(f'unknown type "{name}"')
        self._take("(")
        made = build()
        self._take(")")
        return made

    def _builders(self) -> dict[str, Callable[[], pa.DataType]]:
        return {
            "Timestamp": self._timestamp,
            "Time32": lambda: pa.time32(self._unit("s", "ms")),
            "Time64": lambda: pa.time64(self._unit("us", "ns")),
            "Duration": lambda: pa.duration(self._unit(*_UNITS.values())),
            "Interval": self._interval,
            "Decimal128": lambda: pa.decimal128(*self._decimal(38)),
            "Decimal256": lambda: pa.decimal256(*self._decimal(76)),
            "FixedSizeBinary": lambda: pa.binary(self._number(0, 1 << 30)),
            "List": lambda: pa.list_(self.type()),
            "LargeList": lambda: pa.large_list(self.type()),
            "Map": lambda: pa.map_(*self._pair()),
            "Dictionary": lambda: pa.dictionary(*self._pair()),
            "Struct": self._struct,
        }

    def _timestamp(self) -> pa.DataType:
        unit = self._unit(*_UNITS.values())
        return pa.timestamp(unit, tz=self._zone() if self._maybe(",") else None)

    def _zone(self) -> str:
        found = _ZONE.match(self._text, self._at)
        if found is None:
            raise self._fault("expected a time zone")
        self._at = found.end()
        return found[1]

    def _interval(self) -> pa.DataType:
        if (kind := self._word()) != "MonthDayNano":
            raise self._fault(f'expected MonthDayNano, found "{kind}"')
        return pa.month_day_nano_interval()

    def _decimal(self, most: int) -> tuple[int, int]:
        precision = self._number(1, most)
        self._take(",")
        return precision, self._number(-most, most)

    def _pair(self) -> tuple[pa.DataType, pa.DataType]:
        first = self.type()
        self._take(",")
        return first, self.type()

    def _struct(self) -> pa.DataType:
        fields = []
        while True:
            name = self._word()
            self._take(":")
            fields.append(pa.field(name, self.type()))
            if not self._maybe(","):
                return pa.struct(fields)

    def _unit(self, *allowed: str) -> str:
        found = _UNITS.get(name := self._word(), "")
        if found not in allowed:
            raise self._fault(f'expected {" or ".join(_UNIT_NAMES[each] for each in allowed)}, found "{name}"')
        return found

    def _number(self, least: int, most: int) -> int:
        text = self._word()
        if not re.fullmatch(r"-?\d{1,12}", text) or not least <= int(text) <= most:
            raise self._fault(f'expected a number from {least} to {most}, found "{text}"')
        return int(text)

    def _word(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[3]:
            raise self._fault("expected a name")
        self._at = found.end()
        return str(_unquoted(found[1])) if found[1] else found[2]

    def _take(self, sign: str) -> None:
        if not self._maybe(sign):
            raise self._fault(f'expected "{sign}"')

    def _maybe(self, sign: str) -> bool:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[3] != sign:
            return False
        self._at = found.end()
        return True

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._fault("expected the end")

    def _fault(self, message: str) -> ConnectorError:
        shown = self._text if len(self._text) <= 100 else f"{self._text[:97]}…"
        return ConnectorError.schema("BAD_TYPE", f'the type "{shown}": {message} at place {self._at + 1}')
