"""Upserts: deletes without values, row versions across syncs, and insert tokens of a killed server."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.stream import OPERATION, Upsert
from helpers.destinations import CDC, INCREMENTAL, batch
from plugins.connectors.clickhouse.writing import DestinationFixture

CHANGES = pa.schema([
    pa.field("a", pa.int64(), nullable=False),
    pa.field("v", pa.string(), nullable=False),
    pa.field("l", pa.list_(pa.int64())),
    pa.field(OPERATION, pa.string()),
])  # fmt: skip


def changes(*rows: tuple[str, int, str | None]) -> pa.RecordBatch:
    operations, keys, values = zip(*rows, strict=True)
    lists = pa.array([None if value is None else [1] for value in values], pa.list_(pa.int64()))
    columns = [pa.array(keys, pa.int64()), pa.array(values, pa.string()), lists, pa.array(operations)]
    return pa.record_batch(columns, schema=CHANGES)


def test_delete_needs_no_value_for_a_column_that_is_not_nullable(destination: DestinationFixture) -> None:
    stream = destination.stream(CDC, Upsert(["a"]))
    first = changes(("insert", 1, "x"), ("insert", 2, "y"), ("insert", 3, "z"))
    second = changes(
        *(("delete", 1, None), ("update", 2, "Y"), ("delete", 3, None), ("insert", 3, "new")),
        *(("insert", 4, "short"), ("delete", 4, None)),
    )
    done = destination.write([first, second], stream, fits=True)
    assert destination.rows(columns="a, v", final=True) == [(2, "Y"), (3, "new")]
    assert not done.seen.letters and done.summary.records_written == 9


def test_rows_of_a_renamed_sync_replace_the_old_ones(destination: DestinationFixture) -> None:
    """A sync that was renamed counts its runs from 1 again."""
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    destination.write([batch(a=[1], v=["old"])], stream, generation=70_000)
    destination.sync = "renamed"
    destination.write([batch(a=[1], v=["new"])], stream, generation=1)
    assert destination.rows(columns="a, v", final=True) == [(1, "new")]
    destination.write([batch(a=[1], v=["newer"])], stream, generation=2)
    assert destination.rows(columns="a, v", final=True) == [(1, "newer")]


@pytest.mark.parametrize("made_by", ["this version", "an older one"])
def test_row_whose_token_the_server_already_knows_is_written(
    destination: DestinationFixture, monkeypatch: pytest.MonkeyPatch, made_by: str
) -> None:
    """A server that dies at the wrong moment keeps the token of an insert without its rows, and drops the retry."""
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    destination.write([batch(a=[0])], stream)
    if made_by == "an older one":
        destination.run_sql(
            f"ALTER TABLE {destination.database}.t MODIFY SETTING non_replicated_deduplication_window = 10000"
        )
    monkeypatch.setattr("gauss.plugins.connectors.clickhouse.destination_writer.uuid", _Uuids(uuid.uuid4()))
    destination.write([batch(a=[1]), batch(a=[2])], stream, generation=2)
    assert destination.rows(columns="a", final=True) == [(0,), (1,), (2,)]


class _Uuids:
    """Gives all inserts one token."""

    def __init__(self, token: uuid.UUID) -> None:
        self._token = token

    def uuid4(self) -> uuid.UUID:
        return self._token


@pytest.mark.parametrize("name", ["_version", "_deleted"])
def test_stream_column_with_the_name_of_an_internal_one_is_refused(destination: DestinationFixture, name: str) -> None:
    stream = destination.stream(INCREMENTAL, Upsert(["a"]))
    destination.write([batch(a=[1])], stream)
    with pytest.raises(ConnectorError, match=f"has {name}, which upsert adds itself") as raised:
        destination.write([batch(a=[2], **{name: [3]})], stream, generation=2)
    assert raised.value.code == "RESERVED_COLUMN"
