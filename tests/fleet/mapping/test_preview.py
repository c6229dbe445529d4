"""Previews: each record as the row it becomes, or with the reason why it becomes none; the table that is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.config.formats import build_format
from gauss.contracts.evolution import Change
from gauss.contracts.table import RowBlock
from gauss.fleet.mapping.column import Mapping
from gauss.fleet.mapping.compile import TableName, compile_mapping, create_statement
from gauss.fleet.mapping.preview import preview
from gauss.fleet.mapping.samples import propose_from
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError
from gauss.tables.rows import RowMapper

NANOS = "2024-01-31T10:00:00.123456789"
NOWHERE = TableName("http://127.0.0.1:1", "default", "orders")
RECORD: dict[str, Any] = {
    "id": 2**64 - 1, "price": "12.50", "exact": 0.5, "at": 1_700_000_000_000, "at_ns": 1_700_000_000_123_456_789,
    "when": "2024-01-31T10:00:00.123Z", "day": "2024-01-31", "u": "123e4567-e89b-12d3-a456-426614174000",
    "ip": "10.0.0.1", "nano": f"{NANOS}+02:00", "ok": True, "tags": ["a", "b"], "nested": {"deep": {"n": -5}},
    "any": {"x.y": 1}, "opt": None,
}  # fmt: skip


def mapping(*columns: dict[str, Any], **table: Any) -> Mapping:
    return Mapping(columns=list(columns), **table)  # type: ignore[arg-type]


def column(path: str, type_: str, **more: Any) -> dict[str, Any]:
    return {"fieldPath": path, "column": path.replace(".", "_"), "type": type_, **more}


def previewed(made: Mapping, *data: bytes | None) -> list[Any]:
    table = compile_mapping(made, "json", {}, NOWHERE)
    return preview(table, data, [5] * len(data))


def test_each_bad_record_has_its_own_error_and_spoils_no_other() -> None:
    at = column("at", "DateTime64(3)", encoding="ms")
    made = mapping(column("id", "Int64"), at, column("s", "String", nullable=True))
    good = b'{"id": 1, "at": 1700000000000, "s": "x"}'
    found = previewed(
        made,
        good,
        b"{",
        None,
        b'{"id": "1", "at": 1}',
        b'{"id": 9223372036854775808, "at": 1}',
        b'{"at": 1}',
        b'{"id": 1, "at": 99999999999999999}',
        good,
    )
    faults = [(each.error.stage, each.error.reason, each.error.column) if each.error else None for each in found]
    assert faults[0] is None
    assert faults[7] is None
    assert found[0].mapped["id"] == 1
    assert [fault and fault[:2] for fault in faults[1:6]] == [
        ("decode", "bad_json"),
        ("read", "tombstone"),
        ("decode", "wrong_type"),
        ("decode", "out_of_range"),
        ("map", "null"),
    ]
    assert faults[6] is not None
    assert all((each.mapped is None) == (each.error is not None) for each in found)


@pytest.mark.parametrize("kind", ["UUID", "IPv4", "IPv6", "FixedString(2)"])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_text_that_is_no_value_of_its_column_is_not_taken_for_null(kind: str, nullable: bool) -> None:
    found = previewed(mapping(column("a", kind, nullable=nullable)), b'{"a": "no such value"}')
    assert (found[0].error.stage, found[0].error.reason, found[0].error.column) == ("insert", "convert", "a")


@pytest.mark.parametrize(
    ("format_name", "config"),
    [
        ("avro", {"schema_text": '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'}),
        ("protobuf", {"proto_text": 'syntax = "proto3"; message Order { int64 id = 1; }', "message": "Order"}),
    ],
)
def test_records_become_rows_by_a_schema_that_is_text(format_name: str, config: dict[str, Any]) -> None:
    record = build_format(format_name, config).encode({"id": 2**60})
    made = propose_from([record], format_name, config).mapping
    good, bad = preview(compile_mapping(made, format_name, config, NOWHERE), [record, b"\xff"], [5, 5])
    assert good.mapped == {"id": 2**60}
    assert bad.error is not None
    assert bad.error.stage == "decode"


def test_a_number_keeps_every_digit() -> None:
    made = mapping(column("id", "UInt64"), column("price", "Decimal(38, 20)"))
    (found,) = previewed(made, b'{"id": 18446744073709551615, "price": 0.12345678901234567891}')
    assert found.mapped == {"id": 2**64 - 1, "price": Decimal("0.12345678901234567891")}


@pytest.mark.parametrize(("text", "hour"), [(NANOS, 10), (NANOS + "Z", 10), (NANOS + "+02:00", 8)])
@pytest.mark.parametrize(
    ("format_name", "given", "record"),
    [("json", {}, '{"at": "%s"}'), ("csv", {"fields": ["at"]}, "%s")],
)
def test_a_time_as_text_keeps_its_nanoseconds(
    text: str, hour: int, format_name: str, given: dict[str, Any], record: str
) -> None:
    made = mapping(column("at", "DateTime64(9)", encoding="iso"))
    table = compile_mapping(made, format_name, given, NOWHERE)
    rows = RowMapper(table).rows(pa.table([[0, 1], [5, 5], [(record % each).encode() for each in (text, "no time")]],
                                          schema=RECORD_SCHEMA))  # fmt: skip
    assert rows is not None
    (found,) = rows.groups[0].rows["at"].cast(pa.int64()).to_pylist()
    assert found == (1_706_695_200 + (hour - 10) * 3600) * 10**9 + 123_456_789
    assert [each.offset for each in rows.refusals] == [1]


def test_an_array_of_times_that_would_lose_digits_is_refused() -> None:
    with pytest.raises(ConfigError, match="no field fills the type"):
        compile_mapping(mapping(column("at", "Array(DateTime64(9))")), "json", {}, NOWHERE)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([column("a", "Int65")], "Int65"),
        ([column("a", "Array(Foo)")], "Foo"),
        ([column("a", "Int64(")], "parenthesis"),
        ([column("a", "Int64"), column("b", "Int64") | {"column": "a"}], "two fields fill the column 'a'"),
        ([column("a", "Int64") | {"column": "_offset"}], "reserved"),
        ([column("a", "String", encoding="ms")], "needs the type DateTime"),
        ([column("", "String")], "at least 1 character"),
        ([column("a", "String", nulable=True)], "Extra inputs"),
    ],
)
def test_a_wrong_mapping_is_refused(columns: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        mapping(*columns)


def test_a_column_that_nothing_fills_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="no field fills the type") as caught:
        compile_mapping(mapping(column("a", "Map(String, String)")), "json", {}, NOWHERE)
    assert "encoding json" in caught.value.hint


def test_hostile_names_are_quoted() -> None:
    made = mapping({"fieldPath": "a", "column": "x`; DROP TABLE t; --", "type": "String"})
    statement = create_statement(compile_mapping(made, "json", {}, NOWHERE))
    assert "`x\\`; DROP TABLE t; --` String" in statement


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    made = ensure("clickhouse", tmp_path_factory.mktemp("fleet") / "clickhouse")
    yield made
    made.stop()


@pytest.mark.system
def test_a_proposed_table_takes_the_samples_as_they_are(clickhouse: EmbeddedServer) -> None:
    endpoint = clickhouse.endpoint
    dsn = f"http://{endpoint.user}:{endpoint.password}@{endpoint.host}:{endpoint.port}"
    where = TableName(dsn, "default", "samples")
    data = [json.dumps({**RECORD, "opt": None if number % 2 else number}).encode() for number in range(30)]
    made = propose_from(data, "json", {}).mapping
    table = compile_mapping(made, "json", {}, where)
    assert table.store.differences(table.target) is None
    lacking = table.store.prepare(table.target)
    assert table.store.differences(table.target) == []
    table.store.open(table.target, lacking)
    records = pa.table([range(30), [5] * 30, data], schema=RECORD_SCHEMA)
    rows = RowMapper(table).rows(records)
    assert rows is not None
    assert rows.refusals == []
    table.store.insert(RowBlock("p", 1, 1, 7, 0, 30, rows.groups), 0.0)
    client = connect(endpoint)
    found = client.query(
        "SELECT toString(id), toString(price), toUnixTimestamp64Milli(at), toUnixTimestamp64Nano(at_ns), toString(u),"
        " toString(ip), tags, nested_deep_n, any, count() OVER (), countIf(isNull(opt)) OVER (),"
        " toUnixTimestamp64Nano(nano) FROM samples LIMIT 1"
    ).result_rows[0]
    assert found == (
        str(2**64 - 1), "12.5", 1_700_000_000_000, 1_700_000_000_123_456_789, RECORD["u"], "10.0.0.1", ["a", "b"], -5,
        '{"x.y": 1}', 30, 15, 1_706_688_000_123_456_789,
    )  # fmt: skip
    client.command("ALTER TABLE samples DROP COLUMN ok, MODIFY COLUMN nested_deep_n Int32, ADD COLUMN extra String")
    changes = table.store.differences(table.target)
    assert changes is not None
    assert {(each.change, each.name) for each in changes} == {
        (Change.ADD, "ok"),
        (Change.TYPE, "nested_deep_n"),
        (Change.EXTRA, "extra"),
    }
    client.close()
    table.store.close()
