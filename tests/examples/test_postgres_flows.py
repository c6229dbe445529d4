"""The examples from and to Postgres, run against real engines; rows and types are compared exactly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import Endpoint, read_endpoint
from helpers.run import Run, free_port
from helpers.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = "order_id, customer_name, customer_tags, ts"

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Run, str]]:
    """A running copy of the example that the test names, and the port of its feed."""
    for name in (request.param, "schema-maps"):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    folder, port = tmp_path / request.param, str(free_port())
    run = Run(folder, (folder / "pipeline.toml").read_text().replace("9311", port))
    try:
        yield run.start(ready=False), port
    finally:
        run.end()


def server(run: Run, system: str) -> Endpoint:
    found: Endpoint = wait_until(lambda: read_endpoint(run.data_dir / system), 180, f"{system} is up")
    return found


def fed(run: Run, argument: str) -> None:
    subprocess.run([sys.executable, str(run.folder / "feed.py"), argument], check=True, timeout=180)


@pytest.mark.parametrize("example", ["postgres-to-clickhouse"], indirect=True)
def test_rows_of_postgres_become_typed_rows_of_clickhouse_once(example: tuple[Run, str]) -> None:
    run, _ = example
    postgres = server(run, "postgres")
    fed(run, postgres.url)
    query = "SELECT sym, bid, ask, tags, quoted_at FROM quotes ORDER BY quoted_at, sym"
    expected = (run.folder / "expected.tsv").read_text()
    with connect(server(run, "clickhouse")) as client:

        def rows() -> str:
            there = client.query("EXISTS TABLE quotes").first_row == (1,)
            return client.raw_query(query, fmt="TSVWithNamesAndTypes").decode() if there else ""

        wait_until(lambda: rows().count("\n") >= expected.count("\n"), 300, "the rows are in the table")
        assert rows() == expected
        assert client.query("SELECT count() FROM quotes WHERE wrt_ts > '2024-06-01'").first_row == (4,)
        with psycopg.connect(postgres.url, autocommit=True) as source:
            source.execute("INSERT INTO quotes VALUES (9, 'NEW', 1.5, NULL, '{}', '2024-03-02')")
        wait_until(lambda: "NEW" in rows(), 180, "a later row follows")
        assert rows().count("\n") == expected.count("\n") + 1, "no row came twice"
    shown = run.cli("schema", "quotes.ch", str(run.config), "--json").stdout
    fields = {row["field"]: row["type"] for row in json.loads(shown)["columns"]}
    assert fields["bid"] == "numeric(precision 18, scale 8)"
    assert fields["tags"] == "array(element text)"


@pytest.mark.parametrize("example", ["orders-to-postgres"], indirect=True)
def test_nested_json_orders_become_typed_rows_of_postgres(example: tuple[Run, str]) -> None:
    run, port = example
    run.wait_ready()
    fed(run, port)
    expected = (run.folder / "expected.tsv").read_text().splitlines()
    with psycopg.connect(server(run, "postgres").url, autocommit=True) as connection:

        def count() -> int:
            there = connection.execute("SELECT to_regclass('orders') IS NOT NULL").fetchone() == (True,)
            found = connection.execute("SELECT count(*) FROM orders").fetchone() if there else None
            return 0 if found is None else int(found[0])

        wait_until(lambda: count() >= len(expected) - 2, 240, "the rows are in the table")
        texts = ", ".join(f"coalesce({name}::text, '\\N')" for name in COLUMNS.split(", "))
        types = ", ".join(f"pg_typeof({name})::text" for name in COLUMNS.split(", "))
        rows = connection.execute(f"SELECT {texts} FROM orders ORDER BY ts".encode()).fetchall()
        kinds = connection.execute(f"SELECT DISTINCT {types} FROM orders".encode()).fetchall()
        stamped = connection.execute(
            "SELECT count(*) FROM orders WHERE created_at > now() - interval '1 day'"
        ).fetchone()
    assert ["\t".join(row) for row in [COLUMNS.split(", "), *kinds, *rows]] == expected
    assert stamped == (len(rows),)
