"""Rows of an upsert: with a key, a version, and whether they are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.clickhouse.live import describe
from gauss.clients.clickhouse.stages import rows_of
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.stream import OPERATION, Operation
from gauss.plugins.connectors.clickhouse.destination_table import DELETED, VERSION, StreamTable

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

BATCH_BITS = 24
_OPERATIONS = pa.array([each.value for each in Operation])


def keyed_rows(rows: pa.RecordBatch, key: Sequence[str], host: Host) -> pa.RecordBatch:
    """The rows that can be upserted; those without a key, or with an unknown operation, are rejected."""
    for name in key:
        if name not in rows.schema.names:
            raise ConnectorError.schema("NO_KEY", f"the rows have no column {name}, which belongs to the key")
        details = {"column": name, "reason": "null"}
        error = ConnectorError.data("NULL", f"column {name}: null, but it belongs to the key", details=details)
        rows = _without(rows, pc.is_null(rows.column(name)), error, host)
    if OPERATION in rows.schema.names:
        known = pc.is_in(rows.column(OPERATION), value_set=_OPERATIONS)
        expected = ", ".join(Operation)
        error = ConnectorError.data("BAD_OPERATION", f"column {OPERATION}: expected one of {expected}")
        rows = _without(rows, pc.invert(known), error, host)
    return rows


def _without(rows: pa.RecordBatch, bad: pa.BooleanArray, error: ConnectorError, host: Host) -> pa.RecordBatch:
    places = pc.indices_nonzero(bad).to_pylist()
    for place in places:
        host.reject(rows.slice(place, 1), error)
    return rows.filter(pc.invert(bad)) if places else rows


def without_values(rows: pa.RecordBatch, key: Sequence[str]) -> list[pa.RecordBatch]:
    """Rows that are written, and those that are deleted, apart: the latter have no values but those of their key, which
    the source may not know and a column may need. Of each key the last row counts."""
    if OPERATION not in rows.schema.names:
        return [rows]
    deleted = pc.equal(rows.column(OPERATION), Operation.DELETE.value)
    if not pc.any(deleted, min_count=0).as_py():
        return [rows]
    columns = {f"key{place}": _groupable(rows.column(name)) for place, name in enumerate(key)}
    found = pa.table({**columns, "row": np.arange(rows.num_rows)}).group_by(list(columns)).aggregate([("row", "max")])
    last = pa.array(np.sort(found["row_max"].to_numpy()))
    rows, deleted = rows.take(last), deleted.take(last)
    return [rows.filter(pc.invert(deleted)), rows.filter(deleted).select([*key, OPERATION])]


def _groupable(values: pa.Array) -> pa.Array:
    """Values of a type by which Arrow groups rows."""
    if isinstance(values, pa.ExtensionArray):
        return _groupable(values.storage)
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def newest_run(client: Client, table: StreamTable) -> int:
    """The number of the newest run that has upserted rows into a table; 0 if there is none."""
    found = describe(client, table.name, table.database) if table.key else None
    if found is None or VERSION not in (each.name for each in found.columns):
        return 0
    ((newest,),) = rows_of(client, f"SELECT toUInt64(max({VERSION})) FROM {table.sql}")
    return int(newest or 0) >> BATCH_BITS


def versioned(rows: pa.RecordBatch, run: int, batch: int) -> pa.RecordBatch:
    """The rows as the table has them. Versions grow with runs, attempts and batches; of rows with the same version,
    ClickHouse keeps the one that was inserted last."""
    deleted = pa.array(np.zeros(rows.num_rows, np.uint8))
    if OPERATION in rows.schema.names:
        deleted = pc.equal(rows.column(OPERATION), Operation.DELETE.value).cast(pa.uint8())
        rows = rows.drop_columns([OPERATION])
    version = run << BATCH_BITS | min(batch, (1 << BATCH_BITS) - 1)
    versions = pa.array(np.full(rows.num_rows, version, np.uint64))
    return rows.append_column(VERSION, versions).append_column(DELETED, deleted)
