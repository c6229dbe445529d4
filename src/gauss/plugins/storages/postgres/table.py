"""A topic's table in Postgres: creates and alters it, and writes rows by COPY in a transaction with the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gauss.clients.postgres import ddl, ledger, live
from gauss.clients.postgres import write as writing
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.errors import sorted_errors
from gauss.clients.postgres.server import address_of
from gauss.clients.postgres.type_map import column_type
from gauss.clients.postgres.wire import wire_table
from gauss.contracts.evolution import Difference
from gauss.contracts.format import SourceSchema
from gauss.contracts.table import Emptying, Mapped, RowBlock, RowGroup, TableKind, TablePlace
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.plugins.storages.postgres.columns import SPECIAL, arrow_type
from gauss.plugins.storages.postgres.spec import PostgresConfig
from gauss.tables.evolution import lacking_columns
from gauss.tables.target import TypeNames, wanted_table

TYPE_NAMES = TypeNames("BIGINT", "BYTEA", column_type)


class PostgresTable:
    """Implements `TableStore`."""

    def __init__(self, config: PostgresConfig, place: TablePlace) -> None:
        self._config = config
        self._place = place
        self._connected: Connection | None = None
        self._table: writing.PostgresTarget | None = None
        self.kind = TableKind(arrow_type, self._accepts_null, SPECIAL)

    @property
    def ordered(self) -> bool:
        return bool(self._config.keys)

    def _accepts_null(self, field: TargetField) -> bool:
        return not field.props.get("not_null") and field.name not in self._config.keys

    def target(self, source: SourceSchema | None, mapped: Mapped | None) -> TargetSchema:
        attrs = {"table": self._place.topic.replace(".", "_"), **self._config.table_schema}
        if self._config.keys:
            attrs["key"] = self._config.keys
        return wanted_table(attrs, source, mapped, TYPE_NAMES, marked=self._config.exactly_once)

    def column(self, field: TargetField) -> str:
        return ddl.column(field)

    def statement(self, target: TargetSchema) -> str:
        return ddl.create_table(target)

    def differences(self, target: TargetSchema) -> list[Difference] | None:
        connection = self._connection()
        found = live.describe(connection, ddl.table_name(target))
        return None if found is None else live.differences(connection, target, found)

    def prepare(self, target: TargetSchema) -> list[str]:
        connection = self._connection()
        ledger.prepare(connection)
        self._execute([self.statement(target)])
        lacking, statements = lacking_columns(self.differences(target) or [], self._config.evolve)
        self._execute(statements)
        return lacking

    def _execute(self, statements: Sequence[str]) -> None:
        with sorted_errors():
            for statement in statements:
                self._connection().execute(statement.encode())

    def open(self, target: TargetSchema, lacking: Sequence[str]) -> None:
        types = {field.name: field.field_type for field in target.fields if field.name not in lacking}
        self._table = writing.PostgresTarget(ddl.table_name(target), types, ddl.key_of(target))

    def check(self, group: RowGroup) -> None:
        assert self._table is not None
        wire_table(group.rows, self._table.types)

    def insert(self, block: RowBlock, settle_s: float) -> None:  # noqa: ARG002 (a transaction leaves nothing to settle)
        assert self._table is not None
        mark = None
        if self._config.exactly_once:
            mark = ledger.Mark(
                processor=block.processor,
                generation=block.generation,
                epoch=block.epoch,
                inc=block.inc,
                start=block.start,
                stop=block.stop,
                settled=block.settled,
            )
        connection = self._connection()
        with sorted_errors(), connection.transaction():
            if mark is not None and block.rewound:
                ledger.forget(connection, mark)
                block = self._without_present(block)
            writing.write(connection, self._table, self._parts(block), mark)

    def _parts(self, block: RowBlock) -> list[pa.Table]:
        """Each group's rows with where they came from."""
        assert self._table is not None
        groups = newest(block.groups, self._table.key) if self._table.key else block.groups
        return [
            rows.append_column(INC_COLUMN, pa.array(np.full(len(offsets), block.inc, np.int64)))
            .append_column(OFFSET_COLUMN, pa.array(offsets))
            for offsets, rows, _ in groups
        ]  # fmt: skip

    def _without_present(self, block: RowBlock) -> RowBlock:
        """Removes rows that the table already has; rows with a key replace themselves."""
        assert self._table is not None
        return block if self._table.key else block.without(self.present(block.inc, block.start, block.stop))

    def present(self, inc: int, start: int, stop: int) -> list[int]:
        assert self._table is not None
        if OFFSET_COLUMN not in self._table.types or INC_COLUMN not in self._table.types:
            return []
        query = f"SELECT {OFFSET_COLUMN} FROM {self._table.name} WHERE {INC_COLUMN} = %s AND {OFFSET_COLUMN} >= %s"
        with sorted_errors():
            found = self._connection().execute(f"{query} AND {OFFSET_COLUMN} < %s".encode(), [inc, start, stop])
            return [offset for (offset,) in found.fetchall()]

    def _connection(self) -> Connection:
        if self._connected is None:
            self._connected = connect(address_of(self._config, self._place.directory), autocommit=True)
        return self._connected

    def others(self, target: TargetSchema, incs: Sequence[int]) -> int | None:
        connection, name = self._connection(), ddl.table_name(target)
        found = live.describe(connection, name)
        if found is None:
            return 0
        if not {INC_COLUMN, OFFSET_COLUMN} <= {column.name for column in found.columns}:
            return None
        query = f"SELECT count(*) FROM {name} WHERE {INC_COLUMN} IS NULL OR {INC_COLUMN} <> ALL (%s)"
        with sorted_errors():
            (count,) = connection.execute(query.encode(), [list(incs)]).fetchone() or (0,)
        return int(count)

    def empty(self, target: TargetSchema, rows: Emptying, settle_s: float) -> None:  # noqa: ARG002 (see `insert`)
        connection = self._connection()
        with sorted_errors(), connection.transaction():
            # From here on earlier writers are fenced, and their transactions have ended.
            ledger.claim(connection, rows.processor, rows.generation)
            for inc, end in rows.below.items():
                query = f"DELETE FROM {ddl.table_name(target)} WHERE {INC_COLUMN} = %s AND {OFFSET_COLUMN} < %s"
                connection.execute(query.encode(), [inc, end])

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()


def newest(groups: Sequence[RowGroup], key: Sequence[str]) -> Sequence[RowGroup]:
    """Of rows with the same key in several groups only the last: each group is merged by itself."""
    if len(groups) < 2:
        return groups
    keys = [list(zip(*(group.rows[name].to_pylist() for name in key), strict=True)) for group in groups]
    last: dict[object, int] = {}
    for group, own in zip(groups, keys, strict=True):
        for value, offset in zip(own, group.offsets, strict=True):
            last[value] = max(int(offset), last.get(value, -1))
    kept = []
    for group, own in zip(groups, keys, strict=True):
        keep = np.array([last[value] == offset for value, offset in zip(own, group.offsets, strict=True)], bool)
        if keep.any():
            kept.append(RowGroup(group.offsets[keep], group.rows.filter(pa.array(keep)), group.part))
    return kept
