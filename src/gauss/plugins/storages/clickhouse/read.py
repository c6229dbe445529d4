"""Reads a ClickHouse topic."""

from __future__ import annotations

import pyarrow as pa

from gauss.clients.clickhouse import ddl, live
from gauss.clients.clickhouse.quote import identifier, literal
from gauss.clients.clickhouse.read import ClickHouseSelection, Paged, Streamed
from gauss.clients.clickhouse.type_map import general_type
from gauss.clients.clickhouse.types import split_arguments
from gauss.clients.clickhouse.write import query_arrow
from gauss.contracts.expression import Kind
from gauss.contracts.format import GENERAL, FieldType, SourceSchema
from gauss.contracts.table import TablePlace
from gauss.contracts.table_read import Pages, TableColumn, TableReadRequest
from gauss.contracts.target import TargetField, TargetSchema, as_field_type, field_type_dict
from gauss.model.errors import ConfigError
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.plugins.storages.clickhouse.connection import client_of
from gauss.plugins.storages.clickhouse.spec import MERGING, ClickHouseConfig
from gauss.plugins.storages.empty_read import EmptyRead
from gauss.plugins.storages.read_columns import candidate, compared_kinds, holds_bytes, time_column

_FINAL = ("Replacing", *MERGING)
_AS_TEXT = frozenset({"uuid", "string"})


class ClickHouseReader:
    """Implements `TableReader`. Each read has its own connection."""

    def __init__(self, config: ClickHouseConfig, place: TablePlace, source: SourceSchema, target: TargetSchema) -> None:
        self._config, self._place, self._target = config, place, target
        fields = [field for field in target.fields if "ephemeral" not in field.props]
        self.columns = tuple(_column(field, source) for field in fields)
        self._types = {column.name: column.arrow for column in self.columns}
        self.time = time_column(target, self._types)
        self._order = split_arguments(_inside(ddl.order_by(target)))
        names = {column.name for column in self.columns}
        plain = [each.strip("`") for each in self._order]
        keyed = config.replacing and plain and all(each in names for each in plain)
        self.key = tuple(plain) if keyed else ()
        self.attrs = {
            "database": str(target.attrs.get("database") or config.database),
            "table": str(target.attrs["table"]),
            "engine": ddl.engine_of(target).partition("(")[0].strip(),
            "order_by": plain,
        }

    def open(self, asked: TableReadRequest) -> Pages:
        client = client_of(self._config, self._place)
        try:
            found = live.describe(client, self._target.attrs["table"], str(self._target.attrs.get("database") or ""))
            present = frozenset() if found is None else frozenset(each.name for each in found.columns)
            engine = "" if found is None else found.engine
            selection = ClickHouseSelection(
                ddl.table_name(self._target),
                [column for column in self.columns if column.name in asked.columns],
                present,
                final="MergeTree" in engine and any(word in engine for word in _FINAL),
            )
            if asked.times is not None:
                kind = Kind.INT if pa.types.is_integer(self._types[self.time].type) else Kind.OPAQUE
                selection.add_times(self.time, kind, asked.times)
            selection.add_where(asked.where, compared_kinds(self._types))
            if found is None:
                client.close()
                return EmptyRead(selection.text())
            if {INC_COLUMN, OFFSET_COLUMN} <= present and not selection.final:
                return Paged(client, selection, asked.committed)
            return Streamed(client, selection, self._order if selection.final else self._time_order(present))
        except BaseException:
            client.close()
            raise

    def _time_order(self, present: frozenset[str]) -> list[str]:
        return [identifier(self.time)] if self.time in present else []

    def rows(self) -> int:
        client = client_of(self._config, self._place)
        try:
            found = query_arrow(client, f"SELECT count() AS n FROM {ddl.table_name(self._target)}")
        finally:
            client.close()
        return int(found["n"][0].as_py())


def _inside(order: str) -> str:
    """The parts of `(a, b)` or `tuple()`."""
    text = order.strip()
    if text.startswith("tuple("):
        text = text.removeprefix("tuple")
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _column(field: TargetField, source: SourceSchema) -> TableColumn:
    own = FieldType("String", {"utf8": False}) if holds_bytes(field, source) else field.field_type
    found = general_type(own)
    if found is None:
        raise ConfigError(
            f"column {field.name}: the type {field.field_type.name} can't be read", hint="give it another type"
        )
    name, kind = identifier(field.name), field.field_type
    while kind.name in ("Nullable", "LowCardinality"):
        kind = as_field_type(kind.attrs["inner"])
    sql = name
    if found.name == "json":
        sql = f"toJSONString({name})"
    elif found.name in _AS_TEXT and kind.name != "String":
        sql = f"toString({name})"
    elif found.name == "date":
        sql = f"toDate32({name})"
    elif kind.name == "DateTime":
        sql = f"toDateTime64({name}, 0, {literal('UTC')})"
    elif kind.name == "DateTime64":
        precise = kind.attrs.get("precision", 3) > 6
        sql = f"toUnixTimestamp64Nano({name})" if precise else f"toTimeZone({name}, {literal('UTC')})"
    own = FieldType(own.name, {**own.attrs, GENERAL: field_type_dict(found)})
    return TableColumn(field.name, own, candidate(field.name, found), sql)
