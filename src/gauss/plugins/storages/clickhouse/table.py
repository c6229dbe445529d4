"""A topic's table in ClickHouse: creates and alters it, and inserts each block exactly once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import xxhash

from gauss.clients.clickhouse import ddl, live
from gauss.clients.clickhouse import write as writing
from gauss.clients.clickhouse.type_map import column_type
from gauss.clients.clickhouse.wire import wire_table, wire_type
from gauss.contracts.evolution import Difference
from gauss.contracts.format import FieldType, SourceSchema
from gauss.contracts.table import Converter, Emptying, Mapped, RowBlock, RowGroup, TableKind, TablePlace
from gauss.contracts.target import TargetField, TargetSchema, as_field_type
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.plugins.storages.clickhouse.connection import client_of
from gauss.plugins.storages.clickhouse.spec import ClickHouseConfig
from gauss.tables.evolution import lacking_columns
from gauss.tables.target import TypeNames, wanted_table

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

LOOK_SECONDS = 0.25


def _arrow(wanted: FieldType, given: pa.DataType) -> pa.DataType:
    """Timestamps are truncated to the column's precision when they are sent."""
    made = wire_type(wanted, given)
    return given if pa.types.is_timestamp(given) and pa.types.is_timestamp(made) else made


def _accepts_null(field: TargetField) -> bool:
    return _holds_null(field.field_type)


def _holds_null(kind: FieldType) -> bool:
    if kind.name == "LowCardinality":
        kind = as_field_type(kind.attrs["inner"])
    if kind.name == "Tuple":  # a missing object becomes one without members
        members = kind.attrs.get("elements") or kind.attrs.get("fields") or ()
        kinds = [as_field_type(each["type"] if isinstance(each, dict) and "type" in each else each) for each in members]
        return bool(kinds) and all(map(_holds_null, kinds))
    return kind.name in ("Nullable", "Variant", "Dynamic", "JSON")


def _remember_tokens(table: str, found: live.LiveTable) -> list[str]:
    """A table that somebody else made forgets the names of its blocks unless it is told not to."""
    if "non_replicated_deduplication_window" in found.create:
        return []
    return [f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = {ddl.DEDUPLICATION_WINDOW}"]


_UUID = Converter("the same 16 bytes", lambda values, _: values.cast(pa.binary(16)))

TYPE_NAMES = TypeNames("Int64", "String", column_type)


class ClickHouseTable:
    """Implements `TableStore`."""

    kind = TableKind(_arrow, _accepts_null, {("uuid", "UUID"): _UUID})

    def __init__(self, config: ClickHouseConfig, place: TablePlace) -> None:
        self._config = config
        self._place = place
        self._connected: Client | None = None
        self._table: writing.ClickHouseTarget | None = None

    @property
    def ordered(self) -> bool:
        return self._config.replacing

    def target(self, source: SourceSchema | None, mapped: Mapped | None) -> TargetSchema:
        attrs = {"table": self._place.topic.replace(".", "_"), **self._config.attrs}
        return wanted_table(attrs, source, mapped, TYPE_NAMES, marked=self._config.exactly_once)

    def column(self, field: TargetField) -> str:
        return ddl.column(field)

    def statement(self, target: TargetSchema) -> str:
        return ddl.create_table(target)

    def differences(self, target: TargetSchema) -> list[Difference] | None:
        found = live.describe(self._client(), target.attrs["table"], str(target.attrs.get("database") or ""))
        return None if found is None else live.differences(self._client(), target, found)

    def prepare(self, target: TargetSchema) -> list[str]:
        writing.execute(self._client(), [self.statement(target)])
        found = live.describe(self._client(), target.attrs["table"], str(target.attrs.get("database") or ""))
        assert found is not None
        lacking, statements = lacking_columns(live.differences(self._client(), target, found), self._config.evolve)
        if self._config.evolve == "evolve" and "MergeTree" in found.engine and "Replicated" not in found.engine:
            statements = [*statements, *_remember_tokens(ddl.table_name(target), found)]
        writing.execute(self._client(), statements)
        return lacking

    def open(self, target: TargetSchema, lacking: Sequence[str]) -> None:
        types = {field.name: field.field_type for field in target.fields if field.name not in lacking}
        self._table = writing.ClickHouseTarget(ddl.table_name(target), types)

    @property
    def _reads_back(self) -> bool:
        assert self._table is not None
        marked = INC_COLUMN in self._table.types and OFFSET_COLUMN in self._table.types
        return marked and not self._config.async_insert and not self._config.merging

    def check(self, group: RowGroup) -> None:
        assert self._table is not None
        wire_table(group.rows, self._table.types)

    def insert(self, block: RowBlock, settle_s: float) -> None:
        if not block.groups:
            return
        name = self._token(block)
        if block.unclear and self._reads_back:
            self._make_sure(block, name, settle_s)
            return
        for group in block.groups:
            self._insert(block, group, name)

    def _insert(self, block: RowBlock, group: RowGroup, name: str) -> None:
        assert self._table is not None
        block.guard()
        rows, types = group.rows, self._table.types
        if OFFSET_COLUMN in types and INC_COLUMN in types:
            rows = rows.append_column(INC_COLUMN, pa.array(np.full(len(rows), block.inc, np.int64)))
            rows = rows.append_column(OFFSET_COLUMN, pa.array(group.offsets))
        settings = {"async_insert": 1, "wait_for_async_insert": 1} if self._config.async_insert else None
        # Rows that use different default columns are inserted separately, each part with its own token.
        writing.insert(self._client(), self._table, rows, token=f"{name}{group.part}", settings=settings)

    def _make_sure(self, block: RowBlock, name: str, settle_s: float) -> None:
        """Under its own token first: whatever is under way with it counts. But a server that died at the wrong moment
        knows the token and lost the rows, and a lost checkpoint cuts other blocks: rows that are absent, after what
        was under way had its time, go in under another."""
        if self._config.replacing:
            for group in block.groups:
                self._insert(block, group, name)
            # Rows that were replaced are absent too; the newest block again, in its order, changes nothing.
            self._again(block, name)
            return
        absent = self._absent(block)
        if absent is not None and len(absent.offsets()) == len(block.offsets()):
            for group in block.groups:
                self._insert(block, group, name)
        deadline = time.monotonic() + settle_s
        while (absent := self._absent(block)) is not None and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        if absent is not None:
            self._again(absent, name)

    def _again(self, block: RowBlock, name: str) -> None:
        for group in block.groups:
            fresh = xxhash.xxh3_64_hexdigest(np.ascontiguousarray(group.offsets).tobytes())
            self._insert(block, group, f"{name}-{block.generation}-{fresh}")

    def _absent(self, block: RowBlock) -> RowBlock | None:
        """The rows that the table lacks; None if it has all of them."""
        left = block.without(self.present(block.inc, block.start, block.stop))
        return left if left.groups else None

    def present(self, inc: int, start: int, stop: int) -> list[int]:
        assert self._table is not None
        if not {INC_COLUMN, OFFSET_COLUMN} <= self._table.types.keys():
            return []
        found = writing.read_back(self._client(), self._table, inc=inc, start=start, stop=stop)
        offsets: list[int] = found["offset"].to_pylist()
        return offsets

    def _token(self, block: RowBlock) -> str:
        assert self._table is not None
        place = self._place
        return writing.token(
            self._table.name, place.topic, inc=block.inc, generation=0, start=block.start, stop=block.stop
        )

    def _client(self) -> Client:
        if self._connected is None:
            self._connected = client_of(self._config, self._place)
        return self._connected

    def others(self, target: TargetSchema, incs: Sequence[int]) -> int | None:
        found = live.describe(self._client(), target.attrs["table"], str(target.attrs.get("database") or ""))
        if found is None:
            return 0
        if self._config.merging or not {INC_COLUMN, OFFSET_COLUMN} <= {column.name for column in found.columns}:
            return None
        return self._count(target, f"{INC_COLUMN} NOT IN ({', '.join(map(str, incs))})")

    def empty(self, target: TargetSchema, rows: Emptying, settle_s: float) -> None:
        """An insert of a process that is gone may come to its end meanwhile: it is looked for until it had its time."""
        gone = " OR ".join(f"({INC_COLUMN} = {inc} AND {OFFSET_COLUMN} < {end})" for inc, end in rows.below.items())
        deadline = time.monotonic() + settle_s
        while True:
            if self._count(target, gone):
                statement = f"ALTER TABLE {ddl.table_name(target)} DELETE WHERE {gone} SETTINGS mutations_sync = 2"
                writing.execute(self._client(), [statement])
            if time.monotonic() > deadline:
                return
            time.sleep(LOOK_SECONDS)

    def _count(self, target: TargetSchema, condition: str) -> int:
        query = f"SELECT count() AS rows FROM {ddl.table_name(target)} WHERE {condition}"
        return int(writing.query_arrow(self._client(), query)["rows"][0].as_py())

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()
