"""Columns put into objects of which only some fields are known: the others stay as they were written."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from gauss.contracts.format import RAW
from gauss.plugins.formats.json.encode import encode_batch
from gauss.plugins.formats.json.plan import path_parts
from gauss.plugins.formats.json.spec import JsonType

Tree = dict[str, Any]
"""The names of the columns, nested as their paths are; a leaf is None."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


def merge(rest: pa.BinaryArray, rows: pa.RecordBatch, types: dict[str, JsonType]) -> pa.BinaryArray:
    """One pass of a C decoder and encoder over each object, which looks at its top level alone."""
    raw = [name for name in rows.schema.names if name.startswith(RAW)]
    typed = rows.select([name for name in rows.schema.names if name not in raw])
    texts = encode_batch(typed, types).to_pylist() if typed.num_columns else [b"{}"] * len(rows)
    tree = _tree(typed.schema.names)
    objects = [_into(_object.decode(old), new, tree) for old, new in zip(rest.to_pylist(), texts, strict=True)]
    for name in raw:
        *way, last = path_parts(name.removeprefix(RAW))
        for found, text in zip(objects, rows.column(name).to_pylist(), strict=True):
            _put(found, way, last, b"null" if text is None else text.encode())
    return pa.array([_encoder.encode(found) for found in objects], pa.binary())


def _tree(names: list[str]) -> Tree:
    root: Tree = {}
    for name in names:
        *way, last = path_parts(name)
        node = root
        for part in way:
            node = node.setdefault(part, {})
        node[last] = None
    return root


def _into(old: dict[str, msgspec.Raw], new: bytes | msgspec.Raw, tree: Tree) -> dict[str, msgspec.Raw]:
    for name, value in _object.decode(new).items():
        inner = tree[name]
        if inner is None:
            _set(old, name, value)
        elif held := _into(_held(old, name), value, inner):
            old[name] = msgspec.Raw(_encoder.encode(held))
    return old


def _put(old: dict[str, msgspec.Raw], way: list[str], last: str, text: bytes) -> None:
    if not way:
        _set(old, last, msgspec.Raw(text))
        return
    held = _held(old, way[0])
    _put(held, way[1:], last, text)
    if held:
        old[way[0]] = msgspec.Raw(_encoder.encode(held))


def _set(old: dict[str, msgspec.Raw], name: str, value: msgspec.Raw) -> None:
    if name in old or bytes(value) != b"null":  # a null adds nothing to a record that has no such field
        old[name] = value


def _held(old: dict[str, msgspec.Raw], name: str) -> dict[str, msgspec.Raw]:
    return _object.decode(old[name]) if name in old and _is_object(old[name]) else {}


def _is_object(value: msgspec.Raw) -> bool:
    return bytes(value).lstrip()[:1] == b"{"
