"""The table of a stream at the destination: its name, columns and DDL, and the names of its staging tables."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gauss.clients.clickhouse.arrow_columns import arrow_of, column_of, nullable, takes_null
from gauss.clients.clickhouse.ddl import DEDUPLICATION_WINDOW, column, create_table, table_name
from gauss.clients.clickhouse.live import LiveTable, describe
from gauss.clients.clickhouse.quote import identifier
from gauss.clients.clickhouse.stages import TargetTable
from gauss.clients.clickhouse.sync_log import SyncLog
from gauss.clients.clickhouse.types import parse_type, render_type, split_arguments
from gauss.clients.postgres.arrow_columns import TYPE_KEY as POSTGRES_TYPE
from gauss.config.sync_rules import last_part
from gauss.contracts.connector.connector import NULL_BECOMES
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import Append, Replace, StreamContext, SyncMode, Upsert
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.plugins.connectors.clickhouse.destination_spec import ClickHouseDestinationConfig
from gauss.plugins.connectors.table_names import RESERVED, refuse_reserved

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

VERSION, DELETED = "_version", "_deleted"
"""Columns of a table that is upserted: the largest version of a key counts, and a deleted row is not seen."""
_BLOCK_COLUMNS = ("_part", "_partition_id")
"""ClickHouse's own, by which blocks that are published are found; a column of the same name hides them."""
TYPE_KEY = b"clickhouse_type"
_BLOCK_NUMBERS, _TOKENS = "enable_block_number_column", "non_replicated_deduplication_window"
_PLAIN = frozenset({"MergeTree", "ReplicatedMergeTree", "SharedMergeTree"})
_REPLACING = re.compile(rf"ReplacingMergeTree\((?:.*, )?{VERSION}, {DELETED}\)")
_UUIDS = {
    b"uuid": FieldType("UUID"),
    b"uuid[]": FieldType("Array", {"element": nullable(FieldType("UUID"))}),
}
"""Column types of a Postgres source whose values are text."""


class StreamTable:
    """Where a stream is written."""

    def __init__(self, config: ClickHouseDestinationConfig, sync: str, stream: StreamContext) -> None:
        self.database = config.target_database
        self.name = config.tables.get(stream.stream_name) or last_part(stream.stream_name)
        refuse_reserved(self.name, stream.stream_name)
        self.sql = table_name(TargetSchema((), {"database": self.database, "table": self.name}))
        """The quoted name."""
        self.stream = stream
        mode = stream.write_mode or Append()
        self.key = tuple(mode.primary_key) if isinstance(mode, Upsert) else ()
        self.replaces = isinstance(mode, Replace)
        self.is_staged = stream.sync_mode is SyncMode.FULL_REFRESH and not self.key
        """Whether rows become visible at the end only. Upserts do not: repeated, they change nothing."""
        if self.replaces and not self.is_staged:
            raise ConnectorError.config(
                "REPLACE_NEEDS_ALL", f"stream {stream.stream_name}: replace needs sync_mode full_refresh"
            )
        self.log = SyncLog(self.database, sync, stream.stream_name)

    @property
    def stages(self) -> str:
        """How the names of this stream's staging tables begin."""
        return f"{RESERVED}stage_{self.log.short}_"

    def new_stage(self, generation: int) -> str:
        """The name of a staging table of a run."""
        return f"{self.stages}{generation}_{uuid.uuid4().hex[:12]}"

    def successor(self, generation: int) -> str:
        """The name of the table that replaces this one."""
        return f"{self.stages}{generation}_new"

    def live(self, client: Client) -> LiveTable:
        """The table; raises ConnectorError if there is none, or it can't be written."""
        found = describe(client, self.name, self.database)
        if found is None:
            raise ConnectorError.schema(
                "NO_TABLE", f"the table {self.sql} does not exist", hint="start the sync again, which creates it"
            )
        self.check(found)
        return found

    def target(self, client: Client) -> TargetTable:
        return TargetTable(self.database, self.name, list(written_types(self.live(client))))

    def check(self, found: LiveTable) -> None:
        """Raises ConnectorError if the table's engine does not fit the write mode."""
        if not self.key:
            if found.engine not in _PLAIN:
                raise ConnectorError.schema(
                    "WRONG_ENGINE",
                    f"{self.sql} has the engine {found.engine}, which changes rows; append and replace need one of"
                    f" {', '.join(sorted(_PLAIN))}",
                    hint="name another table in tables, or write with upsert",
                )
            return
        if not _REPLACING.search(found.create) or _sorting_columns(found) != sorted(self.key):
            columns = ", ".join(map(identifier, self.key))
            raise ConnectorError.schema(
                "NO_KEY",
                f"upsert into {self.sql} needs ReplacingMergeTree({VERSION}, {DELETED}) ORDER BY ({columns}), found"
                f" {found.engine} ORDER BY ({', '.join(_sorting_columns(found))})",
                hint="name another table in tables, which is created so, or write with append",
            )


def _sorting_columns(found: LiveTable) -> list[str]:
    """The columns by which a table is sorted, in alphabetical order; expressions as they are."""
    text = found.sorting_key
    if text.startswith("(") and len(split_arguments(text)) == 1:
        text = text[1:-1]
    names = {spelled: each.name for each in found.columns for spelled in (each.name, identifier(each.name))}
    return sorted(names.get(part, part) for part in split_arguments(text))


def written_types(found: LiveTable) -> dict[str, FieldType]:
    """The columns of a table that can be written."""
    return {each.name: each.field_type for each in found.columns if each.kind in ("", "DEFAULT")}


def landed(schema: pa.Schema) -> pa.Schema:
    """The columns of a new table for rows of a schema."""
    fields = []
    for field in schema:
        identifier(field.name)
        kind = _UUIDS.get((field.metadata or {}).get(POSTGRES_TYPE, b"")) or column_of(field.type)
        fields.append(_described(field.name, kind, field.nullable))
    return pa.schema(fields)


def described(table: StreamTable, found: LiveTable) -> pa.Schema:
    """The columns of a table that can be written. Those of its sorting key count as nullable: a row without a key is
    refused by itself, and the column can't be changed."""
    hidden = {VERSION, DELETED} if table.key else set()
    sorted_by = _sorting_columns(found)
    return pa.schema(
        [
            _described(name, kind, takes_null(kind) or name in sorted_by)
            for name, kind in written_types(found).items()
            if name not in hidden
        ]
    )


def _described(name: str, kind: FieldType, may_be_null: bool) -> pa.Field:
    held, metadata = arrow_of(kind), {TYPE_KEY: render_type(kind).encode()}
    if pa.types.is_nested(held):
        metadata[NULL_BECOMES] = b"empty"
    return pa.field(name, held, may_be_null, metadata=metadata)


def _check_columns(table: StreamTable, found: LiveTable | None, wanted: pa.Schema) -> None:
    """Raises ConnectorError if a column has a name that is needed otherwise."""
    own, whose = ((VERSION, DELETED), "upsert adds itself") if table.key else (_BLOCK_COLUMNS, "ClickHouse has itself")
    names = {*wanted.names} if table.key or found is None else {*wanted.names, *(each.name for each in found.columns)}
    if not table.replaces and (taken := names.intersection(own)):
        raise ConnectorError.schema(
            "RESERVED_COLUMN",
            f"{table.sql}: the stream or the table has {', '.join(sorted(taken))}, which {whose}",
            hint="rename the column",
        )


def ddl(table: StreamTable, found: LiveTable | None, there: pa.Schema | None, wanted: pa.Schema) -> list[str]:
    """The statements that make the table have the wanted columns. They may run twice."""
    _check_columns(table, found, wanted)
    if found is None or there is None:
        return [_create(table, wanted)]
    made = []
    known = {each.name: each for each in there}
    for field in wanted:
        if field.name not in known:
            made.append(f"ALTER TABLE {table.sql} ADD COLUMN IF NOT EXISTS {column(_target(field))}")
        elif field.nullable and not known[field.name].nullable:
            made.append(f"ALTER TABLE {table.sql} MODIFY COLUMN {column(_target(field))}")
    settings = [f"{name} = {value}" for name, value in _settings(table, found).items()]
    made += [f"ALTER TABLE {table.sql} MODIFY SETTING {', '.join(settings)}"] if settings else []
    return made


def _settings(table: StreamTable, found: LiveTable) -> dict[str, int]:
    """Settings of a table that are to be changed. An upserted row may be written twice, but a server that dies at the
    wrong moment knows a token without its rows, and drops them when they are sent again: so it keeps no tokens."""
    is_replicated = "Replicated" in found.engine or "Shared" in found.engine
    if table.key:
        keeps = _TOKENS in found.create and f"{_TOKENS} = 0" not in found.create
        return {_TOKENS: 0} if keeps and not is_replicated else {}
    needed = {_BLOCK_NUMBERS: 1, **({} if is_replicated else {_TOKENS: DEDUPLICATION_WINDOW})}
    return {name: value for name, value in needed.items() if name not in found.create}


def _create(table: StreamTable, wanted: pa.Schema) -> str:
    attrs: dict[str, Any] = {"database": table.database, "table": table.name}
    fields = [_target(field, is_key=field.name in table.key) for field in wanted]
    if table.key:
        hidden = {VERSION: "UInt64", DELETED: "UInt8"}
        fields += [TargetField(name, FieldType(kind), name) for name, kind in hidden.items()]
        attrs |= {"engine": "ReplacingMergeTree", "engine_params": list(hidden), "order_by": list(table.key)}
        attrs |= {"settings": {_TOKENS: 0}}
    else:
        attrs |= {"settings": {_BLOCK_NUMBERS: 1}}
        cursor = table.stream.cursor_info.cursor_field if table.stream.cursor_info is not None else ""
        if any(field.name == cursor and not field.nullable for field in wanted):
            attrs["order_by"] = [cursor]
    return create_table(TargetSchema(tuple(fields), attrs))


def _target(field: pa.Field, *, is_key: bool = False) -> TargetField:
    kind = parse_type((field.metadata or {})[TYPE_KEY].decode())
    return TargetField(field.name, nullable(kind) if field.nullable and not is_key else kind, field.name)
