"""Which columns files can hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError


def check_types(schema: pa.Schema, format: str) -> None:
    """Raises ConnectorError with all columns that files of a format can't hold."""
    names = list(schema.names)
    faults = [
        f"{name!r} is the name of two columns" for name in sorted({each for each in names if names.count(each) > 1})
    ]
    if not names:
        faults.append("there are no columns")
    for field in schema:
        for kind in _all_types(field.type):
            if pa.types.is_union(kind):
                faults.append(f"{field.name!r} has a union type")
            elif format == "parquet" and _is_beyond_parquet(kind):
                faults.append(f"{field.name!r} has the type {kind}, which parquet lacks")
    if faults:
        raise ConnectorError.schema(
            "NO_TYPE",
            f"the rows can't be written to files: {'; '.join(faults)}",
            hint="leave the column out, or set `format` to arrow, csv or jsonl" if format == "parquet" else "",
        )


def merged(live: pa.Schema | None, wanted: pa.Schema) -> pa.Schema:
    """The columns of a folder, of which some files have only a part: those it has, and new ones."""
    if live is None:
        return wanted.remove_metadata()
    fields, there = {each.name: each for each in wanted}, set(live.names)
    known = [fields.get(each.name) or each.with_nullable(True) for each in live]
    # Files that were written before have no value for a new column.
    new = [each.with_nullable(True) for each in wanted if each.name not in there]
    return pa.schema([*known, *new])


def _all_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all inside it."""
    yield kind
    for place in range(kind.num_fields):
        yield from _all_types(kind.field(place).type)


def _is_beyond_parquet(kind: pa.DataType) -> bool:
    empty = pa.types.is_struct(kind) and not kind.num_fields
    rounded = pa.types.is_decimal(kind) and kind.scale < 0
    return bool(empty or rounded or kind == pa.month_day_nano_interval() or pa.types.is_run_end_encoded(kind))
