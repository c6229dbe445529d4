"""Inserts rows into ClickHouse with deduplication, and reads back which rows are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc
import xxhash

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.wire import wire_table
from gauss.contracts.format import FieldType
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

PINNED: Mapping[str, Any] = {
    # ClickHouse 26.9 enables it by default, which disables deduplication.
    "async_insert": 0,
    "insert_deduplicate": 1,
    "input_format_null_as_default": 0,
    "input_format_arrow_allow_missing_columns": 0,
    # A batch stays one block, so that one token identifies it.
    "max_insert_block_size": 1 << 24,
    "min_insert_block_size_rows": 1 << 24,
    "min_insert_block_size_bytes": 1 << 30,
    "max_partitions_per_insert_block": 0,
}
"""Settings that inserts rely on, regardless of the server's profile."""


def token(table: str, topic: str, *, inc: int, generation: int, start: int, stop: int) -> str:
    """The deduplication token of a batch: the same range of the same topic has the same token."""
    text = "\0".join((table, topic, str(inc), str(generation), str(start), str(stop)))
    return xxhash.xxh3_128_hexdigest(text.encode())


@dataclass(frozen=True)
class ClickHouseTarget:
    """The name and column types of a table to write."""

    name: str
    """The quoted name."""
    types: Mapping[str, FieldType]


def insert(
    client: Client,
    table: ClickHouseTarget,
    rows: pa.Table,
    *,
    token: str,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Inserts rows under a token. Columns that the rows lack get their defaults.

    Raises RowError, Unavailable, Unclear or ConfigError. A token is always sent: with a deduplication window, equal
    blocks without one would vanish.
    """
    names = ", ".join(map(identifier, rows.schema.names))
    rows = wire_table(rows, table.types)
    sink = pa.BufferOutputStream()
    sink.write(f"INSERT INTO {table.name} ({names}) FORMAT ArrowStream\n".encode())
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    with sorted_errors():
        client.raw_insert(
            "",  # the statement is part of the block
            insert_block=sink.getvalue().to_pybytes(),
            settings={**PINNED, **(settings or {}), "insert_deduplication_token": token},
        )


def read_back(client: Client, table: ClickHouseTarget, *, inc: int, start: int, stop: int) -> pa.Table:
    """`_offset` and the number of its rows, for the offsets in [start, stop) that the table contains."""
    query = (
        f"SELECT {OFFSET_COLUMN} AS offset, count() AS rows FROM {table.name} "
        f"WHERE {INC_COLUMN} = {{inc:Int64}} "
        f"AND {OFFSET_COLUMN} >= {{start:Int64}} AND {OFFSET_COLUMN} < {{stop:Int64}} "
        f"GROUP BY {OFFSET_COLUMN} ORDER BY {OFFSET_COLUMN}"
    )
    return query_arrow(client, query, {"inc": inc, "start": start, "stop": stop})


def query_arrow(
    client: Client, query: str, parameters: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None
) -> pa.Table:
    """The result of a query as an Arrow table."""
    pinned = {"output_format_arrow_string_as_string": 1, "output_format_arrow_low_cardinality_as_dictionary": 0}
    with sorted_errors():
        content = client.raw_query(
            query, parameters=dict(parameters or {}), fmt="ArrowStream", settings={**pinned, **(settings or {})}
        )
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def execute(client: Client, statements: Sequence[str]) -> None:
    """Executes DDL statements in order."""
    with sorted_errors():
        for statement in statements:
            client.command(statement)
