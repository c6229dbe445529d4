"""Writes columns into JSON objects; all other fields keep their bytes."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from gauss.contracts.format import FILL, OTHER, RAW
from gauss.plugins.formats.json.encode import encode_batch
from gauss.plugins.formats.json.plan import path_parts
from gauss.plugins.formats.json.spec import JsonType

Object = dict[str, msgspec.Raw]

NULL = b"null"
_object = msgspec.json.Decoder(Object)
_encoder = msgspec.json.Encoder()


def merge(rest: pa.BinaryArray, rows: pa.RecordBatch, types: dict[str, JsonType]) -> pa.BinaryArray:
    """Objects with the columns set. Only the top level of each object is parsed. A null is not added to an object that
    has no such field."""
    names = [name for name in rows.schema.names if not name.startswith(OTHER)]
    fills = [name.startswith(FILL) for name in names]
    columns = [_column(name.removeprefix(FILL), rows.column(name), types) for name in names]
    objects = [{} if record is None else _object.decode(record) for record in rest.to_pylist()]
    for name in rows.schema.names:
        if name.startswith(OTHER):
            _add_others(objects, rows.column(name), *name.removeprefix(OTHER).split(":", 1))
    for ((*way, last), texts), fill in zip(columns, fills, strict=True):
        if fill:
            for found, text in zip(objects, texts, strict=True):
                if text != NULL and not _has(found, way, last):
                    _put(found, way, last, text)
            continue
        if way:
            for found, text in zip(objects, texts, strict=True):
                _put(found, way, last, text)
            continue
        for found, text in zip(objects, texts, strict=True):
            if text != NULL or last in found:
                found[last] = msgspec.Raw(text)
    return pa.array(list(map(_encoder.encode, objects)), pa.binary())


def _column(name: str, values: pa.Array, types: dict[str, JsonType]) -> tuple[tuple[str, ...], list[bytes]]:
    """The path of a column, and its values as JSON."""
    if name.startswith(RAW):
        texts = [NULL if text is None else text.encode() for text in values.to_pylist()]
        return path_parts(name.removeprefix(RAW)), texts
    alone = pa.RecordBatch.from_arrays([values], names=["v"])
    written = encode_batch(alone, {"v": types[name]} if name in types else {}).to_pylist()
    return path_parts(name), [text[5:-1] for text in written]  # without {"v": and }


def _put(old: Object, way: list[str], last: str, text: bytes) -> None:
    if not way:
        if text != NULL or last in old:
            old[last] = msgspec.Raw(text)
        return
    first = way[0]
    held = _object.decode(old[first]) if first in old and _is_object(old[first]) else {}
    _put(held, way[1:], last, text)
    if held:
        old[first] = msgspec.Raw(_encoder.encode(held))


def _add_others(objects: list[Object], others: pa.BinaryArray, prefix: str, key: str) -> None:
    for found, other in zip(objects, others.to_pylist(), strict=True):
        for name, text in _object.decode(other).items() if other is not None else ():
            found.setdefault(name if name == key else prefix + name, text)


def _has(found: Object, way: list[str], last: str) -> bool:
    """Whether an object has a field, or a value on its path that is no object."""
    for part in way:
        if part not in found:
            return False
        if not _is_object(found[part]):
            return True
        found = _object.decode(found[part])
    return last in found


def _is_object(value: msgspec.Raw) -> bool:
    return bytes(value).lstrip()[:1] == b"{"
