"""A table keeps its keys, indexes and privileges when its rows are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.stream import Append, Replace
from helpers.destinations import FULL, batch
from helpers.postgres_destination import DestinationFixture

Sql = Callable[[str], list[Any]]


@pytest.fixture
def destination(postgres: Endpoint, schema: str) -> Iterator[DestinationFixture]:
    made = DestinationFixture(postgres, schema)
    yield made
    made.close()


def replace(destination: DestinationFixture, generation: int = 1) -> None:
    destination.write([batch(a=[7, 8], b=["x", "y"])], destination.stream(FULL, Replace()), generation=generation)


def oid(connection: Connection, schema: str) -> int:
    found = connection.execute("SELECT %s::regclass::oid", [f"{schema}.t"]).fetchone()
    assert found is not None
    return int(found[0])


def test_swapped_table_keeps_keys_indexes_privileges_defaults_and_comments(
    destination: DestinationFixture, connection: Connection, schema: str, run_sql: Sql
) -> None:
    reader = f"reader_{schema}"
    run_sql(f"CREATE ROLE {reader}")
    run_sql(
        f"""CREATE TABLE t (a bigint, b text DEFAULT 'd', c bigint GENERATED ALWAYS AS (a + 1) STORED,
            CONSTRAINT "the key" PRIMARY KEY (a), UNIQUE (b) DEFERRABLE INITIALLY DEFERRED, CHECK (a > 0));
        CREATE INDEX "odd ""name" ON t (lower(b) DESC) WHERE a > 1;
        COMMENT ON TABLE t IS 'it''s mine'; COMMENT ON COLUMN t.a IS 'the a';
        GRANT SELECT, INSERT ON t TO {reader} WITH GRANT OPTION; GRANT UPDATE (b) ON t TO PUBLIC;
        INSERT INTO t (a) VALUES (1)"""
    )
    facts = [
        "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 't' ORDER BY 1",
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1",
        "SELECT relacl::text, pg_get_userbyid(relowner), obj_description(oid) FROM pg_class WHERE oid = 't'::regclass",
        "SELECT attname, attacl::text, attnotnull, col_description(attrelid, attnum) FROM pg_attribute"
        " WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum",
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass ORDER BY 1",
    ]
    before, old = [run_sql(fact) for fact in facts], oid(connection, schema)
    replace(destination)
    assert run_sql("SELECT a, b, c FROM t ORDER BY 1") == [(7, "x", 8), (8, "y", 9)]
    assert [run_sql(fact) for fact in facts] == before
    assert oid(connection, schema) != old
    run_sql(f"DROP TABLE t; DROP ROLE {reader}")


def test_revoked_privilege_is_not_restored_by_a_swap(
    destination: DestinationFixture, connection: Connection, schema: str, run_sql: Sql
) -> None:
    reader = f"reader_{schema}"
    run_sql(f"CREATE ROLE {reader}; CREATE TABLE t (a bigint, b text)")
    for role in (reader, "PUBLIC"):
        run_sql(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT ON TABLES TO {role}")
    run_sql(f"GRANT INSERT ON t TO {reader}")
    acl, before = "SELECT relacl::text FROM pg_class WHERE oid = 't'::regclass", oid(connection, schema)
    expected = run_sql(acl)
    replace(destination)
    assert run_sql(acl) == expected and oid(connection, schema) != before
    run_sql(f"DROP OWNED BY {reader}; DROP ROLE {reader}")


@pytest.mark.parametrize(
    "belongs",
    [
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE TABLE other (a bigint REFERENCES t (a) DEFERRABLE INITIALLY DEFERRED)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE PUBLICATION p_own FOR TABLE t",
        "ALTER TABLE t ADD COLUMN n bigserial",
        "ALTER TABLE t SET (fillfactor = 50)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE TABLE child () INHERITS (t)",
        "ALTER TABLE t ALTER COLUMN b SET STATISTICS 500",
        "ALTER TABLE t ALTER COLUMN b SET (n_distinct = 9)",
        "CLUSTER t USING t_pkey",
        "COMMENT ON INDEX t_pkey IS 'mine'",
        "CREATE ACCESS METHOD heap_own TYPE TABLE HANDLER heap_tableam_handler;"
        "ALTER TABLE t SET ACCESS METHOD heap_own",
        "ALTER TABLE t ADD COLUMN r int4range, ADD COLUMN v int4range, ADD UNIQUE (r, v WITHOUT OVERLAPS)",
    ],
    ids=lambda text: text[:20],
)
def test_table_that_cannot_be_swapped_is_filled_in_place(
    destination: DestinationFixture, connection: Connection, schema: str, run_sql: Sql, belongs: str
) -> None:
    run_sql(f"CREATE TABLE t (a bigint PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'old'); {belongs}")
    before = oid(connection, schema)
    replace(destination)
    assert run_sql("SELECT a, b FROM ONLY t ORDER BY 1") == [(7, "x"), (8, "y")]
    assert oid(connection, schema) == before
    run_sql("DROP PUBLICATION IF EXISTS p_own; DROP ACCESS METHOD IF EXISTS heap_own CASCADE")


def test_partitioned_table_is_filled_in_place(destination: DestinationFixture, run_sql: Sql) -> None:
    run_sql(
        "CREATE TABLE t (a bigint, b text) PARTITION BY RANGE (a);"
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (8);"
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (8) TO (99); INSERT INTO t VALUES (1, 'old')"
    )
    replace(destination)
    assert run_sql("SELECT * FROM t1") == [(7, "x")] and run_sql("SELECT * FROM t2") == [(8, "y")]


def test_failed_finish_keeps_the_old_rows(destination: DestinationFixture, run_sql: Sql) -> None:
    run_sql("CREATE TABLE t (a bigint, b text UNIQUE); INSERT INTO t VALUES (1, 'old')")
    with pytest.raises(ConnectorError, match="could not create unique index") as caught:
        destination.write([batch(a=[1, 2], b=["same", "same"])], destination.stream(FULL, Replace()))
    assert caught.value.category is ErrorCategory.DATA
    assert run_sql("SELECT * FROM t") == [(1, "old")]
    replace(destination, 2)
    assert run_sql("SELECT a FROM t ORDER BY 1") == [(7,), (8,)]


def test_append_swaps_an_empty_table_and_keeps_existing_rows(
    destination: DestinationFixture, connection: Connection, schema: str, run_sql: Sql
) -> None:
    run_sql("CREATE TABLE t (a bigint, b text)")
    before = oid(connection, schema)
    stream = destination.stream(FULL, Append())
    destination.write([batch(a=[1], b=["x"])], stream)
    swapped = oid(connection, schema)
    run_sql("INSERT INTO t VALUES (2, 'theirs')")
    destination.write([batch(a=[3], b=["z"])], stream, generation=2)
    assert before != swapped == oid(connection, schema)
    assert [a for (a, _) in destination.rows()] == [1, 2, 3]
