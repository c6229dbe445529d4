"""One field of undecoded records, such as the key by which they are partitioned."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.field_types import arrow_type, parse_member
from gauss.contracts.format import Decoded, Format, SourceField
from gauss.model.errors import ConfigError


class RecordField:
    """Decodes one field, by batch. Without a schema its values are texts or whole numbers."""

    def __init__(self, format_: Format, name: str, *, what: str) -> None:
        """`what`: the setting that names the field, for messages."""
        self._format = format_
        schema = format_.schema()
        declared = {} if schema is None else {field.name.removeprefix("$."): field for field in schema.fields}
        path = name.removeprefix("$.")
        field, self._way = declared_field(path, declared)
        if declared and field is None:
            raise ConfigError(
                f'the format has no field "{name}" for {what}', hint=f"it has: {', '.join(sorted(declared))}"
            )
        self._is_free = field is None
        self._name = field.name if field is not None else f"$.{path}" if "." in path else path
        self._type = pa.string() if field is None else arrow_type(field.field_type)

    def keys(self, data: pa.BinaryArray) -> pa.BinaryArray:
        """The values as keys of records, one per record; null if it has none, can't be decoded, or has several rows."""
        found = as_key(self._values(data, self._type))
        if not (self._is_free and found.null_count):
            return found
        missing = found.is_null()
        return pc.replace_with_mask(found, missing, as_key(self._values(data.filter(missing), pa.int64())))

    def numbers(self, data: pa.BinaryArray) -> pa.Int64Array:
        """The values as whole numbers, one per record; null as for `keys`, or if it is no whole number."""
        return whole_numbers(self._values(data, pa.int64() if self._is_free else self._type))

    def _values(self, data: pa.BinaryArray, kind: pa.DataType) -> pa.Array:
        decoded = self._format.decode_batch(data, pa.schema([pa.field(self._name, kind)]))
        values = decoded.rows.column(0)
        return _aligned(pc.struct_field(values, self._way) if self._way else values, decoded, len(data))


def as_key(values: pa.Array) -> pa.BinaryArray:
    """The values of a field as keys of records: text, or the text of a number."""
    kind = values.type
    return values.cast(pa.binary()) if pa.types.is_binary(kind) else values.cast(pa.string()).cast(pa.binary())


def whole_numbers(values: pa.Array) -> pa.Int64Array:
    """Values as int64, null if their type has no whole numbers alone. Those above it become negative."""
    kind = values.type
    is_whole = pa.types.is_integer(kind) or kind == pa.decimal128(20, 0)  # uint64
    return values.cast(pa.int64(), safe=False) if is_whole else pa.nulls(len(values), pa.int64())


def _aligned(values: pa.Array, decoded: Decoded, count: int) -> pa.Array:
    """A value per record."""
    good = np.asarray(decoded.good, np.int64)
    if not decoded.spread and len(good) == count:
        return values
    held = np.bincount(good, minlength=count)
    rows = np.full(count, -1, np.int64)
    rows[good] = np.arange(len(good))
    missing = held != 1
    return values.take(pa.array(np.where(missing, 0, rows), mask=missing))


def declared_field(path: str, declared: Mapping[str, SourceField]) -> tuple[SourceField | None, list[int]]:
    """The declared field that contains a value, and the path inside it: a nested message is one field of its format."""
    if path in declared:
        return declared[path], []
    first, *rest = path.split(".")
    field = declared.get(first)
    kind = None if field is None else field.field_type
    way = []
    for name in rest:
        members = [] if kind is None or kind.name not in ("struct", "tuple") else kind.attrs["fields"]
        named = [parse_member(index, member) for index, member in enumerate(members)]
        found = next((index for index, (member, _) in enumerate(named) if member == name), None)
        if found is None:
            return None, []
        way.append(found)
        kind = named[found][1]
    return field, way
