"""TCP → inbox → Spark → embedded servers, with real kills: every record becomes one row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import read_endpoint
from gauss.clients.postgres.connect import connect as connect_postgres
from helpers.feeds import send
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def pipeline(feed: int, storage: str = "clickhouse", settings: str = "", fields: str = "") -> str:
    """JSON lines from a socket into a table."""
    return f"""
[spark]
master = "local[2]"

[[formats]]
name = "numbers"
plugin = "json"
config = {{ fields = [{{ name = "n", type = "int64" }}{fields}] }}

[[topics]]
name = "numbers"
storage = "{storage}"
storage_config = {{ format = "numbers", flush_interval = "200ms", {settings} }}

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "numbers" }}
config = {{ port = {feed}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}
"""


def rows(run: Run, query: str) -> list[Any]:
    """Runs a statement in the embedded ClickHouse, as any client would."""
    endpoint = read_endpoint(run.data_dir / "clickhouse")
    assert endpoint is not None
    with connect(endpoint) as client:
        return list(client.query(query).result_rows)


def ask_postgres(run: Run, query: str) -> list[Any]:
    endpoint = read_endpoint(run.data_dir / "postgres")
    assert endpoint is not None
    with connect_postgres(endpoint) as connection:
        return connection.execute(query.encode()).fetchall()


def written(run: Run) -> int:
    """Number of rows in the table; 0 while there is no table or no answer."""
    try:
        return int(rows(run, "SELECT count() FROM numbers")[0][0])
    except Exception:
        return 0


def numbers(run: Run) -> list[int]:
    return [n for (n,) in rows(run, "SELECT n FROM numbers ORDER BY n")]


def test_records_become_rows_once_and_bad_ones_dead_letters(gauss: Make) -> None:
    feed = free_port()
    run = gauss(pipeline(feed)).start()
    lines = [b'{"n":%d}' % n for n in range(5_000)]
    lines[100] = b"not json"
    lines[200] = b'{"n":"two"}'
    send(feed, b"\n".join(lines) + b"\n")
    wait_until(lambda: written(run) >= 4_998, 180, "4,998 rows")
    assert numbers(run) == [n for n in range(5_000) if n not in (100, 200)]
    assert rows(run, "SELECT min(_offset), max(_offset), uniqExact(_inc), min(ts_ms) > 0 FROM numbers") == [
        (0, 4_999, 1, 1)
    ]
    committed(run)  # rows are visible before their batch is committed; dead letters come with the commit
    listed = json.loads(run.cli("dlq", "ls", "--json").stdout)
    assert sum(group["count"] for group in listed["groups"]) == 2, listed
    assert run.stop() == 0
    assert not run.named("clickhouse")


def test_fixed_records_are_replayed_once_into_a_table_that_grew_and_was_dropped(gauss: Make) -> None:
    feed = free_port()
    run = gauss(pipeline(feed)).start()
    send(feed, b'{"n":1}\n{"n":2.5}\n{"n":3}\n')
    wait_until(lambda: written(run) == 2, 180, "2 rows")
    committed(run)
    url = run.cli("db", "url", "clickhouse").stdout.strip()
    assert httpx.post(url, content="SELECT sum(n) FROM numbers", timeout=60).text.strip() == "4"
    assert run.stop() == 0

    run.config.write_text(pipeline(feed, fields=', { name = "x", type = "string" }').replace("int64", "double"))
    run.start(ready=False)
    refused = wait_until(lambda: health(run, "differs from its schema"), 180, "the refusal of another type")
    assert "MODIFY COLUMN" in refused
    run.stop()

    run.config.write_text(pipeline(feed, fields=', { name = "x", type = "string" }'))
    run.start()
    send(feed, b'{"n":4,"x":"new"}\n')
    wait_until(lambda: written(run) == 3, 180, "a row with the new column")
    assert rows(run, "SELECT n, x FROM numbers ORDER BY n") == [(1, None), (3, None), (4, "new")]
    shown = json.loads(run.cli("schema", "numbers", str(run.config), "--json").stdout)
    assert shown["differences"] == []

    committed(run)  # so that the seek is not in the middle of a batch
    before = query(run)["generation"]
    run.cli("readers", "seek", "numbers", "_table.numbers", "earliest")
    # The seek and the query that starts there each begin a generation.
    wait_until(lambda: query(run)["generation"] >= before + 2 and not query(run)["behind"], 180, "all read again")
    assert rows(run, "SELECT n, x FROM numbers ORDER BY n") == [(1, None), (3, None), (4, "new")]

    rows(run, "DROP TABLE numbers")
    send(feed, b'{"n":5}\n')
    wait_until(lambda: written(run) == 1, 180, "the table made again")
    committed(run)  # so that the row is not written again
    rows(run, "DROP TABLE numbers")
    assert run.stop() == 0

    run.config.write_text(pipeline(feed).replace("int64", "double"))
    run.start()
    for expected in (1, 0):
        told = run.cli("dlq", "replay", "--processor", "_table.numbers", "--json").stdout
        assert json.loads(told)["replayed"] == expected
    wait_until(lambda: written(run) == 1, 180, "the replayed row")
    assert rows(run, "SELECT n, _inc < 0, _offset FROM numbers") == [(2.5, 1, 0)]


def query(run: Run) -> dict[str, Any]:
    """The table's internal query, as `gauss processors ls` shows it."""
    found: list[dict[str, Any]] = run.api("/api/processors")["processors"]
    return next(row for row in found if row["name"] == "_table.numbers")


def committed(run: Run) -> None:
    """Waits until all sent records are committed."""
    wait_until(lambda: not query(run)["behind"], 120, "the commit")


def health(run: Run, words: str) -> str:
    """The health reason that contains the words; empty if there is none."""
    try:
        reasons = run.api("/api/health")["reasons"]
    except (OSError, ValueError, KeyError):
        return ""
    return next((reason for reason in reasons if words in reason), "")


@pytest.mark.fault
def test_postgres_holds_the_last_row_of_each_key_after_kills(gauss: Make) -> None:
    feed = free_port()
    run = gauss(pipeline(feed, "postgres", 'key = "n"', ', { name = "v", type = "int64" }')).start()
    for turn, victim in enumerate(["gauss.clients.postgres.owner", DRIVER, ""]):
        send(feed, b"".join(b'{"n":%d,"v":%d}\n' % (n % 500, 1_000 * turn + n) for n in range(1_000)))
        if victim:
            run.kill(victim)
    last = "SELECT count(*), min(v), max(v), max(_offset) FROM numbers"
    wait_until(lambda: asked_or_none(run, last) == [(500, 2_500, 2_999, 2_999)], 240, "the last rows")
    epochs = "SELECT min(epoch) >= 0 FROM _gauss_ledger"
    assert wait_until(lambda: asked_or_none(run, epochs)) == [(True,)]


def asked_or_none(run: Run, query: str) -> list[Any] | None:
    try:
        return ask_postgres(run, query)
    except Exception:
        return None
