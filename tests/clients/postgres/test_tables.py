"""Tables are created, described and compared on a real Postgres."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.ddl import create_table, table_name
from gauss.clients.postgres.live import describe, differences
from gauss.clients.postgres.quote import identifier
from gauss.clients.postgres.types import canonical
from gauss.contracts.evolution import Change
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError
from gauss.tables.evolution import additions
from helpers.cases import cases

ORDERS = (
    TargetField("order_id", FieldType("BIGINT"), "$.order.id"),
    TargetField("customer_name", FieldType("TEXT"), "$.order.customer.name"),
    TargetField("customer_tags", FieldType("ARRAY", {"element": {"name": "TEXT"}}), "$.order.customer.tags"),
    TargetField("bid", FieldType("NUMERIC", {"precision": 18, "scale": 8}), "bid", {"not_null": True}),
    TargetField("ask", FieldType("NUMERIC", {"precision": 18, "scale": 8}), "ask"),
    TargetField("spread", FieldType("NUMERIC"), None, {"generated": "ask - bid"}),
    TargetField("region", FieldType("VARCHAR", {"length": 20}), "region", {"default": "'unknown'"}),
    TargetField("at", FieldType("TIMESTAMP", {"precision": 3, "timezone": True}), "at"),
    TargetField("created_at", FieldType("TIMESTAMPTZ"), None, {"default": "now()"}),
)


def orders(table: str, *extra: TargetField) -> TargetSchema:
    return TargetSchema((*ORDERS, *extra), {"table": table, "key": ["order_id"]})


def make(connection: Connection, target: TargetSchema) -> None:
    connection.execute(create_table(target).encode())


def test_create_table_statement_is_as_expected() -> None:
    target = TargetSchema(
        (
            TargetField("order_id", FieldType("BIGINT"), "$.order.id"),
            TargetField("total", FieldType("NUMERIC"), None, {"generated": "order_id * 2", "not_null": True}),
            TargetField("created_at", FieldType("TIMESTAMPTZ"), None, {"default": "now()"}),
        ),
        {"schema": "shop", "table": "orders", "key": "order_id"},
    )
    assert create_table(target) == (
        'CREATE TABLE IF NOT EXISTS "shop"."orders" (\n'
        '    "order_id" BIGINT,\n'
        '    "total" NUMERIC GENERATED ALWAYS AS (order_id * 2) STORED NOT NULL,\n'
        '    "created_at" TIMESTAMPTZ DEFAULT now(),\n'
        '    PRIMARY KEY ("order_id")\n'
        ")"
    )


def test_created_table_does_not_differ_from_its_schema(connection: Connection, table: str) -> None:
    target = orders(table)
    make(connection, target)
    live = describe(connection, table_name(target))
    assert live and live.key == ("order_id",)
    assert [canonical(found.field_type) for found in live.columns] == [canonical(f.field_type) for f in ORDERS]
    assert differences(connection, target, live) == []


def test_materialized_column_is_computed_by_the_server(connection: Connection, table: str) -> None:
    fields = (
        TargetField("bid", FieldType("BIGINT"), "bid"),
        TargetField("twice", FieldType("BIGINT"), None, {"materialized": "bid * 2"}),
    )
    target = TargetSchema(fields, {"table": table})
    make(connection, target)
    connection.execute(f"INSERT INTO {table_name(target)} (bid) VALUES (21)".encode())
    assert connection.execute(f"SELECT twice FROM {table_name(target)}".encode()).fetchone() == (42,)
    live = describe(connection, table_name(target))
    assert live is not None and differences(connection, target, live) == []


def test_describe_of_a_missing_table_is_none(connection: Connection, table: str) -> None:
    assert describe(connection, identifier(table)) is None


def test_added_columns_are_found_and_created(connection: Connection, table: str) -> None:
    make(connection, orders(table))
    wanted = orders(table, TargetField('no"te', FieldType("TEXT"), "note", {"default": "'a''b'"}))
    live = describe(connection, identifier(table))
    assert live
    found = differences(connection, wanted, live)
    assert [difference.change for difference in found] == [Change.ADD]
    for statement in additions(found):
        connection.execute(statement.encode())
    live = describe(connection, identifier(table))
    assert live and differences(connection, wanted, live) == []


def test_other_changes_are_refused_with_a_statement_as_hint(connection: Connection, table: str) -> None:
    make(connection, orders(table))
    fields = {field.name: field for field in ORDERS}
    fields["customer_name"] = TargetField("customer_name", FieldType("VARCHAR", {"length": 9}), "x", {"not_null": True})
    fields["region"] = TargetField("region", FieldType("VARCHAR", {"length": 20}), "region")
    fields["spread"] = TargetField("spread", FieldType("NUMERIC"), None, {"generated": "bid - ask"})
    del fields["at"]
    wanted = TargetSchema(tuple(fields.values()), {"table": table, "key": ["order_id", "bid"]})
    live = describe(connection, identifier(table))
    assert live
    found = differences(connection, wanted, live)
    changed = [(difference.change, difference.name) for difference in found]
    assert changed == [
        (Change.TYPE, "customer_name"),
        (Change.TYPE, "customer_name"),
        (Change.DEFAULT, "spread"),
        (Change.DEFAULT, "region"),
        (Change.EXTRA, "at"),
        (Change.TABLE, "key"),
    ]
    with pytest.raises(ConfigError, match="more than added columns") as caught:
        additions(found)
    assert "ALTER COLUMN" in caught.value.hint
    assert str(found[0]) in caught.value.message.splitlines()[0]  # all that `gauss processors ls` shows
    for difference in found:
        if difference.statement:
            connection.execute(difference.statement.encode())
    live = describe(connection, identifier(table))
    assert live and [d.name for d in differences(connection, wanted, live)] == ["key"]


@pytest.mark.parametrize(
    ("field", "match"),
    [
        (TargetField("a", FieldType("TEXT"), None, {"codec": "ZSTD"}), "no codec"),
        (TargetField("a", FieldType("TEXT"), None, {"default": "1", "generated": "2"}), "default and generated"),
        (TargetField("x" * 64, FieldType("TEXT")), "1 to 63 bytes"),
        (TargetField("", FieldType("TEXT")), "1 to 63 bytes"),
    ],
)
def test_column_attribute_that_postgres_lacks_is_refused(field: TargetField, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        create_table(TargetSchema((field,), {"table": "t"}))


def test_unknown_key_column_and_duplicate_column_are_refused() -> None:
    one = TargetField("a", FieldType("TEXT"))
    with pytest.raises(ConfigError, match="no column b"):
        create_table(TargetSchema((one,), {"table": "t", "key": "b"}))
    with pytest.raises(ConfigError, match="twice"):
        create_table(TargetSchema((one, one), {"table": "t"}))


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=40).filter(
    lambda name: len(name.encode()) <= 63
)


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names, min_size=1, max_size=4, unique=True), names)
def test_any_column_name_is_kept_unchanged(connection: Connection, columns: list[str], name: str) -> None:
    with connection.transaction(force_rollback=True):
        target = TargetSchema(tuple(TargetField(column, FieldType("TEXT")) for column in columns), {"table": name})
        make(connection, target)
        live = describe(connection, table_name(target))
        assert live and [found.name for found in live.columns] == columns
