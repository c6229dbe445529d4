"""Decodes batches of JSON with the compiled walk: twice as fast as polars, and exact for decimals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.format import FieldType
from gauss.plugins.formats.cells import Cells, ColumnTypes, Names, column_type
from gauss.plugins.formats.columns import bytes_of, is_ascii
from gauss.plugins.formats.json import walk
from gauss.plugins.formats.json.plan import Found, JsonColumn, column
from gauss.plugins.formats.json.spec import JsonType


class JsonTables(NamedTuple):
    """The names and column types of a schema, as the walk looks them up."""

    names: Names
    targets: np.ndarray
    types: ColumnTypes


def decode(data: pa.BinaryArray, columns: list[JsonColumn], tables: JsonTables) -> Found | None:
    """The columns of a batch; None until the walk is compiled."""
    function = walk.WALK.compiled(len(data), data.nbytes, lambda made: _decode(made, data.slice(0, 1), columns, tables))
    if function is None:
        return None
    return _decode(function, data, columns, tables)


def load_cached() -> bool:
    """Loads the walk that an earlier process has compiled; returns whether there was one."""
    columns = [column("n", JsonType(name="int64"))]
    tables = make_tables(columns)
    assert tables is not None
    data = pa.array([b'{"n":1}'], pa.binary())
    return walk.WALK.load_cached(lambda made: _decode(made, data, columns, tables))


def _decode(
    function: Callable[[walk.JsonWalk], None], data: pa.BinaryArray, columns: list[JsonColumn], tables: JsonTables
) -> Found:
    offsets, body = bytes_of(data)
    cells = Cells.of(offsets, body, tables.types)
    objects, json_columns, guesses = (np.zeros(walk.MAX_DEPTH, np.int64) for _ in range(3))
    seen = np.zeros(len(tables.targets), np.int64)
    ascii_only = is_ascii(offsets, body)
    function(walk.JsonWalk(cells, ascii_only, tables.names, tables.targets, objects, json_columns, guesses, seen))
    arrays = [cells.column(index, _type(entry), entry.arrow) for index, entry in enumerate(columns)]
    suspects = cells.suspects.astype(bool)
    return Found(arrays, suspects if suspects.any() else None)


def make_tables(columns: list[JsonColumn]) -> JsonTables | None:
    """None if the walk can't read a type, or a column lies inside another."""
    types = [column_type(_type(entry)) for entry in columns]
    known = [type_ for type_ in types if type_ is not None]
    objects = _objects(columns)
    if len(known) < len(types) or objects is None:
        return None
    names = [name.encode() for members in objects for name in members]
    sizes = np.array([len(name) for name in names], np.int64)
    first = np.cumsum([0, *(len(members) for members in objects)], dtype=np.int64)
    text = np.frombuffer(b"".join(names), np.uint8)
    targets = np.array([target for members in objects for target in members.values()], np.int64)
    return JsonTables(Names(text, first, np.cumsum(sizes) - sizes, sizes), targets, ColumnTypes.of(known))


def _objects(columns: list[JsonColumn]) -> list[dict[str, int]] | None:
    """The target of each name of each object on the way to a column; see `JsonWalk.targets`."""
    objects: list[dict[str, int]] = [{}]
    for index, entry in enumerate(columns):
        if entry.spread or entry.type.name == "bytes":  # which is base64 in JSON
            return None
        members = objects[0]
        for part in entry.parts[:-1]:
            if part not in members:
                objects.append({})
                members[part] = -len(objects)
            if members[part] >= 0:
                return None
            members = objects[-1 - members[part]]
        if entry.parts[-1] in members:
            return None
        members[entry.parts[-1]] = index
    return objects


def _type(entry: JsonColumn) -> FieldType:
    return FieldType(entry.type.name, entry.type.attrs)
