"""The rows of a lookup as Arrow columns: types are what all values of a column have in common."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from gauss.model.errors import ConfigError
from gauss.plugins.processors.enrich.spec import Lookup
from gauss.plugins.processors.fields import plain

KEY = "_key"
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def table_of(lookup: Lookup) -> pa.Table:
    """The key as text, under `_key`, and all other columns; raises ConfigError."""
    rows = [{**row, KEY: key} for key, row in (lookup.table or {}).items()] if lookup.file is None else _file(lookup)
    names = list(dict.fromkeys(name for row in rows for name in row if name != KEY))
    if not names:
        raise ConfigError("the lookup has no fields to add", hint="give each key a table of fields")
    keys = [row[KEY] for row in rows]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f'the key "{twice}" stands twice in the lookup', hint="each key may have one row")
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    return pa.table({KEY: pa.array(keys, pa.string()), **columns})


def _file(lookup: Lookup) -> list[dict[str, Any]]:
    assert lookup.file is not None
    column = lookup.file_key or plain(lookup.key).rpartition(".")[2]
    try:
        rows = _csv(lookup.file, column) if lookup.file.suffix == ".csv" else json.loads(lookup.file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the lookup file {lookup.file} can't be read: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{lookup.file} must hold an array of objects", hint='[{"symbol": "BTC", "name": "Bitcoin"}]')
    for row in rows:
        if row.get(column) is None:
            raise ConfigError(f'a row of {lookup.file} has no key "{column}"', hint="set file_key to the key's column")
        row[KEY] = str(row.pop(column))
    return rows


def _csv(file: Path, key: str) -> list[dict[str, Any]]:
    with file.open(newline="", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = list(csv.DictReader(lines, restkey="", restval=None))
    for row in rows:
        row.pop("", None)
    for name in (name for name in (rows[0] if rows else ()) if name != key):
        texts = [text for row in rows if (text := row[name])]
        # "007" stays text: it is a name made of digits.
        read: Any = str
        if texts and all(_WHOLE.fullmatch(text) for text in texts):
            read = int
        elif texts and all(_NUMBER.fullmatch(text) for text in texts):
            read = float
        elif texts and all(text in ("true", "false") for text in texts):
            read = "true".__eq__
        for row in rows:
            row[name] = read(row[name]) if row[name] else None
    return rows


def _column(name: str, values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    known = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    if len(kinds) > 1 or not kinds <= known.keys():
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ConfigError(f'the lookup\'s field "{name}" must be text, numbers or booleans throughout, found {found}')
    return pa.array(values, known[kinds.pop()] if kinds else pa.string())
