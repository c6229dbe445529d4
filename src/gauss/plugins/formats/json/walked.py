"""Columns by the walk over plain objects, once it is compiled: twice as fast as polars, and exact for decimals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.format import FieldType
from gauss.plugins.formats.columns import bytes_of
from gauss.plugins.formats.json import walk
from gauss.plugins.formats.json.plan import Column, Found
from gauss.plugins.formats.walked import Values, facts


class Tables(NamedTuple):
    """What the walk looks up: names by node, and the type of each column."""

    names: np.ndarray
    first: np.ndarray
    entries: np.ndarray
    kinds: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    scales: np.ndarray


def decode(data: pa.BinaryArray, columns: list[Column], tables: Tables) -> Found | None:
    """None: the walk is not there yet."""
    function = walk.WALK.compiled(len(data), data.nbytes, lambda made: _decode(made, data.slice(0, 1), columns, tables))
    if function is None:
        return None
    return _decode(function, data, columns, tables)


def _decode(function: Callable[..., None], data: pa.BinaryArray, columns: list[Column], tables: Tables) -> Found:
    offsets, body = bytes_of(data)
    values = Values(len(columns), len(data))
    stack, held, guess = (np.zeros(walk.DEPTH, np.int64) for _ in range(3))
    ascii_only = bool(body[offsets[0] : offsets[-1]].max(initial=0) < 128)
    scratch = (stack, held, guess, np.zeros(len(tables.entries), np.int64))
    function(body, offsets, ascii_only, *tables, *values.arrays(), *scratch)
    arrays = [values.column(index, _type(entry), entry.arrow, body) for index, entry in enumerate(columns)]
    odd = values.suspects.astype(bool)
    return Found(arrays, odd if odd.any() else None)


def tables(columns: list[Column]) -> Tables | None:
    """None: the walk does not know a type, or a field lies inside another."""
    nodes: list[dict[str, int]] = [{}]
    for index, entry in enumerate(columns):
        if entry.spread or entry.type.name == "bytes":  # which is base64 here
            return None
        node = nodes[0]
        for part in entry.parts[:-1]:
            if part not in node:
                nodes.append({})
                node[part] = -len(nodes)
            if node[part] >= 0:
                return None
            node = nodes[-1 - node[part]]
        if entry.parts[-1] in node:
            return None
        node[entry.parts[-1]] = index
    names = b""
    entries: list[tuple[int, int, int]] = []
    first = [0]
    for node in nodes:
        for name, target in node.items():
            entries.append((len(names), len(name.encode()), target))
            names += name.encode()
        first.append(len(entries))
    known = [facts(_type(entry)) for entry in columns]
    if None in known:
        return None
    types = np.array(known, np.int64).reshape(-1, 4)
    found = np.array(entries, np.int64).reshape(-1, 3)
    return Tables(np.frombuffer(names, np.uint8), np.array(first, np.int64), found, *types.T.copy())


def _type(entry: Column) -> FieldType:
    return FieldType(entry.type.name, entry.type.attrs)
