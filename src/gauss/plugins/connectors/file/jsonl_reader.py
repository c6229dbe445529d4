"""Reads jsonl files in blocks of whole lines; a bad line costs one row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.json as pj

from gauss.plugins.connectors.file.json_text import NUMBER_NAMES, from_wire, named_numbers, read_lines, wire_type
from gauss.plugins.connectors.file.listing import DataFile
from gauss.plugins.connectors.file.reading import BAD_VALUE, Piece, ReadOptions, Reject, grown, opened, with_new
from gauss.plugins.connectors.file.text import exact_type

READ_BYTES = 1 << 20
_FEW = 64
"""Lines that are read one by one once a block has failed."""


_LARGE = re.compile(rb"\d{19}")


class _Block(NamedTuple):
    lines: list[bytes]
    first: int
    """Number of the first line in the file, from 1."""


def read_jsonl(file: DataFile, schema: pa.Schema, options: ReadOptions, skip: int, reject: Reject) -> Iterator[Piece]:
    """The rows of a file behind its first `skip` lines."""
    for block in _blocks(file, options, skip, reject):
        end = block.first + len(block.lines) - 1
        if end <= skip:
            continue
        wanted = block if block.first > skip else _Block(block.lines[skip + 1 - block.first :], skip + 1)
        if options.on_new_columns is not None:
            lines = [each for each in wanted.lines if each.strip()]
            if (rows := _fast(lines, schema, strict=True)) is not None:
                if rows.num_rows:
                    yield Piece(rows, end)
                continue
            if new := _unknown(lines, schema):
                options.on_new_columns(file, f", lines {wanted.first} to {end}", pa.schema(new))
        yield from _rows(wanted, schema, reject)


def unknown_in_jsonl(file: DataFile, schema: pa.Schema, options: ReadOptions) -> pa.Schema:
    """The schema with the columns of all rows of a file."""
    for block in _blocks(file, options, 0, lambda *_: None):
        lines = [each for each in block.lines if each.strip()]
        if _fast(lines, schema, strict=True) is None:
            schema = with_new(schema, pa.schema(_unknown(lines, schema)))
    return schema


def _unknown(lines: list[bytes], schema: pa.Schema) -> list[pa.Field]:
    """New columns of lines, and known ones with new fields."""
    return [
        each
        for each in _columns(lines)
        if each.name not in schema.names
        or grown(schema.field(each.name).type, each.type) != schema.field(each.name).type
    ]


def infer_jsonl(file: DataFile, options: ReadOptions) -> pa.Schema:
    """The columns of a file, with types that fit its first block. Text that looks like a time stays text."""
    for block in _blocks(file, options, 0, lambda *_: None):
        return _columns([each for each in block.lines if each.strip()])
    return pa.schema([])


def _columns(lines: list[bytes]) -> pa.Schema:
    found = _inferred(lines)
    exact = _integers(lines, [each.name for each in found if pa.types.is_floating(each.type)])
    return pa.schema([each.with_type(exact.get(each.name) or _kept(each.type)) for each in found])


def _integers(lines: list[bytes], names: list[str]) -> dict[str, pa.DataType]:
    """The types of the columns that hold integers only, of which some are too large for 64 bits."""
    if not names or not any(map(_LARGE.search, lines)):
        return {}
    values: dict[str, list[Any]] = {name: [] for name in names}
    for line in lines:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            for name in names:
                if isinstance(row, dict) and row.get(name) is not None:
                    values[name].append(row[name])
    whole = {name: found for name, found in values.items() if all(type(each) is int for each in found)}
    return {name: exact_type(max(len(str(each)) for each in found)) for name, found in whole.items() if found}


def _blocks(file: DataFile, options: ReadOptions, skip: int, reject: Reject) -> Iterator[_Block]:
    """Whole lines. One that is too long is rejected, and stands as an empty line."""
    number, rest, dropped = 1, b"", 0
    with opened(file) as data:
        while chunk := data.read(READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if lines and dropped:
                _reject_long(number, dropped + len(lines[0]), skip, options, reject)
                lines[0], dropped = b"", 0
            for place, line in enumerate(lines):
                if len(line) > options.record_bytes:
                    _reject_long(number + place, len(line), skip, options, reject)
                    lines[place] = b""
            if dropped or len(rest) > options.record_bytes:
                dropped, rest = dropped + len(rest), b""
            if lines:
                yield _Block(lines, number)
                number += len(lines)
    if dropped:
        _reject_long(number, dropped, skip, options, reject)
    elif rest:
        yield _Block([rest], number)


def _reject_long(number: int, size: int, skip: int, options: ReadOptions, reject: Reject) -> None:
    if number > skip:
        reject(number, _line(b""), f"a record has at most {options.record_bytes:,} bytes, found {size:,}")


def _rows(block: _Block, schema: pa.Schema, reject: Reject) -> Iterator[Piece]:
    rows = _fast([each for each in block.lines if each.strip()], schema)
    if rows is None and len(block.lines) > _FEW:
        middle = len(block.lines) // 2
        yield from _rows(_Block(block.lines[:middle], block.first), schema, reject)
        yield from _rows(_Block(block.lines[middle:], block.first + middle), schema, reject)
        return
    if rows is None:
        rows = _one_by_one(block, schema, reject)
    if rows.num_rows:
        yield Piece(rows, block.first + len(block.lines) - 1)


def _one_by_one(block: _Block, schema: pa.Schema, reject: Reject) -> pa.RecordBatch:
    made = [_one(line, block.first + place, schema, reject) for place, line in enumerate(block.lines)]
    good = [each for each in made if each is not None]
    if not good or not schema.names:
        return _nothing(schema)
    return pa.Table.from_batches(good).unify_dictionaries().combine_chunks().to_batches()[0]


def _fast(lines: list[bytes], schema: pa.Schema, *, strict: bool = False) -> pa.RecordBatch | None:
    """All lines at once; None if one is wrong, with `strict` also if one has an unknown key."""
    if not lines:
        return _nothing(schema)
    data = b"\n".join(lines) + b"\n"
    for given in (data, _bare(data, schema)):
        try:
            rows = read_lines(given, schema, strict=strict)
        except BAD_VALUE:
            continue
        # More rows than lines: one line has several values.
        if rows.num_rows == len(lines):
            return rows
    return None


def _bare(data: bytes, schema: pa.Schema) -> bytes:
    """Numbers that JSON lacks without their quotes, as Arrow reads them. A text with these bytes would be escaped."""
    for field in schema:
        if pa.types.is_floating(field.type):
            key = json.dumps(field.name, ensure_ascii=False).encode(errors="surrogatepass") + b":"
            for name in NUMBER_NAMES:
                data = data.replace(key + b'"%b"' % name.encode(), key + name.encode())
    return data


def _one(line: bytes, number: int, schema: pa.Schema, reject: Reject) -> pa.RecordBatch | None:
    """One line, value by value."""
    if not line.strip():
        return None
    column = ""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, found {type(row).__name__}")
        columns = []
        for field in schema:
            column = field.name
            wire = wire_type(field.type)
            columns.append(from_wire(pa.array([named_numbers(row.get(column), wire)], wire), field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (*BAD_VALUE, RecursionError) as error:
        reject(number, _line(line), str(error).splitlines()[0][:200], column)
        return None


def _line(line: bytes) -> pa.RecordBatch:
    return pa.record_batch({"line": pa.array([line.decode(errors="replace")], pa.string())})


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def _inferred(lines: list[bytes]) -> pa.Schema:
    """The schema of lines. Where they do not agree the first counts."""
    if not lines:
        return pa.schema([])
    data = b"\n".join(lines) + b"\n"
    try:
        return pj.read_json(
            pa.BufferReader(data), read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
        ).schema
    except BAD_VALUE:
        if len(lines) == 1:
            return _inferred_alone(lines[0])
    middle = len(lines) // 2
    left, right = _inferred(lines[:middle]), _inferred(lines[middle:])
    try:
        return pa.unify_schemas([left, right], promote_options="permissive")
    except BAD_VALUE:
        return pa.schema([*left, *(each for each in right if each.name not in left.names)])


def _inferred_alone(line: bytes) -> pa.Schema:
    """The schema of a line that Arrow does not read, such as one with a key twice, of which the last counts."""
    try:
        row = json.loads(line)
        return pa.schema(pa.array([row]).type) if isinstance(row, dict) and row else pa.schema([])
    except (*BAD_VALUE, RecursionError):
        return pa.schema([])


def _kept(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_kept(each.type)) for each in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(_kept(kind.value_type))
    return kind
