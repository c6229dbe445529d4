"""Columns of what a record has beside its data: key, headers, partition and offset."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.meta_fields import HEADER

_ESCAPED = r'[\x00-\x1f"\\]'
"""Characters that JSON has no plain form for."""


def meta_columns(records: pa.RecordBatch, fields: Iterable[pa.Field], partition: int | None) -> dict[str, pa.Array]:
    """The wanted columns. `partition`: None for replayed records, which have lost all of them: they are null."""
    return {field.name: _typed(_column(records, field.name, partition), field) for field in fields}


def _column(records: pa.RecordBatch, name: str, partition: int | None) -> pa.Array:
    count, name = len(records), name.removeprefix("$.")
    if partition is None:
        return pa.nulls(count, pa.int64() if name in ("@partition", "@offset") else pa.string())
    if name == "@partition":
        return pa.repeat(pa.scalar(partition, pa.int64()), count)
    if name == "@offset":
        return records.column(0)
    if name == "@key":
        return _text(records.column("key"))
    headers = records.column("headers")
    return _header(headers, name.removeprefix(HEADER)) if name.startswith(HEADER) else _headers(headers)


def _typed(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column as the field has it: a value of any type is its JSON text."""
    is_json = (field.metadata or {}).get(b"gauss") == b"json"
    if is_json and pa.types.is_string(column.type) and field.name != "@headers":
        return _quoted(column)
    return column.cast(field.type)


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return pa.array([None if text is None else msgspec.json.encode(text).decode() for text in texts.to_pylist()])
    return pc.binary_join_element_wise('"', texts, '"', "")


def _text(values: pa.BinaryArray) -> pa.StringArray:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return pa.array([each if each is None else each.decode(errors="replace") for each in values.to_pylist()])


def _header(headers: pa.ListArray, name: str) -> pa.StringArray:
    """The value of one header, of several with that name the last."""
    rows, pairs = pc.list_parent_indices(headers), headers.flatten()
    of_name = pc.equal(pairs.field("key"), name)
    rows, values = rows.filter(of_name), pairs.field("value").filter(of_name)
    places = pa.table({"row": rows, "place": pa.array(range(len(rows)), pa.int64())})
    last = places.group_by("row").aggregate([("place", "max")])
    where = pc.index_in(pa.array(range(len(headers)), pa.int64()), last["row"].combine_chunks().cast(pa.int64()))
    return _text(values.take(last["place_max"].combine_chunks().take(where)))


def _headers(headers: pa.ListArray) -> pa.StringArray:
    """Headers as JSON objects, the last of several with the same name; there is no columnar way to write JSON keys."""
    rows = [
        {each["key"]: None if each["value"] is None else each["value"].decode(errors="replace") for each in row or ()}
        for row in headers.to_pylist()
    ]
    return pa.array([msgspec.json.encode(row).decode() for row in rows], pa.string())
