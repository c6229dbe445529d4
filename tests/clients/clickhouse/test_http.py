"""The HTTP interface of the embedded ClickHouse, used by ordinary clients."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import http.client
import io
import socket
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import clickhouse_connect
import httpx
import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

from gauss.clients.endpoint import Endpoint
from helpers.waiting import wait_until


def driver(endpoint: Endpoint, **options: Any) -> Client:
    return clickhouse_connect.get_client(
        host=endpoint.host, port=endpoint.port, username=endpoint.user, password=endpoint.password, **options
    )


@pytest.fixture(params=[False, "lz4", "zstd", "gzip"])
def plain(request: pytest.FixtureRequest, clickhouse: Endpoint) -> Iterator[Client]:
    """An unmodified client, with each compression."""
    with driver(clickhouse, compress=request.param) as found:
        yield found


PATIENCE = 60
"""Seconds that an answer may take on a busy machine."""


def post(endpoint: Endpoint, query: str, body: Any = b"", **params: str) -> httpx.Response:
    headers = {"X-ClickHouse-User": endpoint.user, "X-ClickHouse-Key": endpoint.password}
    url = f"http://{endpoint.host}:{endpoint.port}/?{urlencode({'query': query, **params})}"
    return httpx.post(url, content=body, headers=headers, timeout=PATIENCE)


@contextlib.contextmanager
def under_way(endpoint: Endpoint, **params: str) -> Iterator[None]:
    """A query that has begun and does not end before its reader goes away."""
    endless = "SELECT number FROM system.numbers FORMAT RowBinary"
    secret = {"user": endpoint.user, "password": endpoint.password}
    with socket.create_connection((endpoint.host, endpoint.port)) as sock:
        parameters = urlencode({"query": endless, **secret, **params})
        sock.sendall(f"POST /?{parameters} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert b"200 OK" in sock.recv(65536)
        yield


def test_query_returns_rows(plain: Client) -> None:
    assert plain.query("SELECT number, toString(number) FROM numbers(3)").result_rows == [(0, "0"), (1, "1"), (2, "2")]


def test_result_of_many_blocks_is_complete(plain: Client) -> None:
    result = plain.query("SELECT number FROM numbers(300000)").result_columns[0]
    assert len(result) == 300_000 and result[-1] == 299_999


def test_every_kind_of_insert_writes_its_rows(plain: Client, table: str) -> None:
    plain.command(f"CREATE TABLE {table} (a Int64, b String) ENGINE = MergeTree ORDER BY a")
    plain.insert(table, [[1, "x"], [2, "y"]], column_names=["a", "b"])
    plain.insert_arrow(table, pa.table({"a": [3], "b": ["z"]}))
    plain.raw_insert(table, ["a", "b"], b"4,w\n", fmt="CSV")
    plain.command(f"INSERT INTO {table} VALUES (5, 'v'), (6, upper('u'))")
    plain.command(f"INSERT INTO {table} SELECT 7, 't'")
    found = plain.query_arrow(f"SELECT * FROM {table} ORDER BY a")
    assert found.to_pydict() == {"a": [1, 2, 3, 4, 5, 6, 7], "b": ["x", "y", "z", "w", "v", "U", "t"]}


def test_arrow_stream_of_many_blocks_is_one_stream(plain: Client) -> None:
    content = plain.raw_query("SELECT number, toString(number) AS s FROM numbers(200000)", fmt="ArrowStream")
    found = pa.ipc.open_stream(content).read_all()
    assert found.num_rows == 200_000 and found["s"][-1].as_py() == "199999"


def test_arrow_stream_with_dictionaries_of_many_blocks_keeps_its_values(plain: Client) -> None:
    content = plain.raw_query(
        "SELECT toLowCardinality(toString(number % 1000 + intDiv(number, 65000) * 1000)) AS s FROM numbers(200000)",
        fmt="ArrowStream",
        settings={"output_format_arrow_low_cardinality_as_dictionary": 1},
    )
    found = pa.ipc.open_stream(content).read_all()["s"].cast(pa.string()).to_pylist()
    assert found == [str(n % 1000 + n // 65000 * 1000) for n in range(200_000)]


def test_empty_result_has_columns(plain: Client) -> None:
    assert plain.query_arrow("SELECT 1 AS a, 'x' AS b WHERE 0").schema.names == ["a", "b"]
    assert pa.ipc.open_stream(plain.raw_query("SELECT 1 AS a WHERE 0", fmt="ArrowStream")).schema.names == ["a"]
    assert plain.query("SELECT 1 AS a WHERE 0").result_rows == []


def test_query_parameter_is_never_parsed_as_sql(plain: Client) -> None:
    hostile = "a'b\\c\td\ne`f\"g😀" + "x" * 9000
    assert plain.query("SELECT {x:String}", parameters={"x": hostile}).result_rows == [(hostile,)]


def test_setting_applies_to_its_request_and_a_set_statement_to_the_session(plain: Client) -> None:
    ask = "SELECT getSetting('max_threads')"
    plain.command("SET max_threads = 7")
    assert plain.command(ask, settings={"max_threads": 3}) == 3
    assert plain.command(ask) == 7


def test_temporary_table_is_visible_only_in_its_session(plain: Client, clickhouse: Endpoint, table: str) -> None:
    plain.command(f"CREATE TEMPORARY TABLE {table} (x Int8)")
    plain.command(f"INSERT INTO {table} VALUES (5)")
    assert plain.command(f"SELECT x FROM {table}") == 5
    with driver(clickhouse) as other, pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        other.command(f"SELECT x FROM {table}")


def test_error_has_the_code_of_clickhouse(plain: Client) -> None:
    with pytest.raises(DatabaseError, match="UNKNOWN_IDENTIFIER") as caught:
        plain.query("SELECT bogus").result_rows  # noqa: B018
    assert caught.value.code == 47


def test_error_in_the_middle_of_a_result_is_raised(plain: Client) -> None:
    with pytest.raises((StreamFailureError, DatabaseError), match="throwIf"):
        plain.query("SELECT number, throwIf(number = 700000) FROM numbers(1000000)").result_rows  # noqa: B018
    assert plain.command("SELECT 1") == 1


def test_query_of_another_database_does_not_change_the_session_database(clickhouse: Endpoint) -> None:
    with driver(clickhouse, database="system") as client:
        assert client.command("SELECT currentDatabase()") == "system"
        assert client.command("SELECT currentDatabase()", use_database=False) == "default"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "wrong"},
        {"Authorization": "Basic ZGVmYXVsdDp3cm9uZw=="},
        {"Authorization": "Basic !!"},
        {"Authorization": "Bearer x"},
    ],
)
def test_request_without_the_password_is_refused(clickhouse: Endpoint, headers: dict[str, str]) -> None:
    response = httpx.get(f"http://127.0.0.1:{clickhouse.port}/?query=SELECT+1", headers=headers, timeout=PATIENCE)
    assert response.status_code == 403
    assert response.headers["X-ClickHouse-Exception-Code"] == "516"
    assert clickhouse.password not in response.text


def test_curl_with_user_and_password_as_parameters_returns_the_result(clickhouse: Endpoint) -> None:
    parameters = urlencode({"query": "SELECT 41 + 1", "user": clickhouse.user, "password": clickhouse.password})
    url = f"http://127.0.0.1:{clickhouse.port}/?{parameters}"
    assert subprocess.run(["curl", "-sS", url], capture_output=True, text=True, check=True).stdout == "42\n"


def test_curl_with_the_printed_url_returns_the_result(clickhouse: Endpoint) -> None:
    command = ["curl", "-sS", clickhouse.url, "--data-binary", "SELECT 1 FORMAT JSONEachRow"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == '{"1":1}\n'


def test_ping_needs_no_password(clickhouse: Endpoint) -> None:
    assert httpx.get(f"http://127.0.0.1:{clickhouse.port}/ping", timeout=PATIENCE).text == "Ok.\n"


def test_get_request_cannot_change_data(clickhouse: Endpoint, table: str) -> None:
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    query = urlencode({"query": f"CREATE TABLE {table} (a Int8) ENGINE = Memory"})
    response = httpx.get(f"http://127.0.0.1:{clickhouse.port}/?{query}", headers=headers, timeout=PATIENCE)
    assert response.headers["X-ClickHouse-Exception-Code"] == "164"
    assert post(clickhouse, f"EXISTS {table}").text == "0\n"


def test_default_format_of_the_request_applies_to_a_query_without_a_format(clickhouse: Endpoint) -> None:
    assert post(clickhouse, "SELECT 1 AS a", default_format="JSONEachRow").text == '{"a":1}\n'
    assert post(clickhouse, "SELECT 1 AS a FORMAT CSV", default_format="JSONEachRow").text == "1\n"


def test_json_result_of_many_blocks_is_one_document(clickhouse: Endpoint) -> None:
    assert len(post(clickhouse, "SELECT number FROM numbers(150000) FORMAT JSON").json()["data"]) == 150_000


def test_insert_split_into_chunks_at_any_byte_writes_all_rows(clickhouse: Endpoint, table: str) -> None:
    post(clickhouse, f"CREATE TABLE {table} (a Int64, b String) ENGINE = MergeTree ORDER BY a")
    sink = io.BytesIO()
    rows = pa.table({"a": range(50_000), "b": [str(n) for n in range(50_000)]})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1000)
    data = sink.getvalue()
    pieces = (data[at : at + 7919] for at in range(0, len(data), 7919))
    response = post(clickhouse, f"INSERT INTO {table} FORMAT ArrowStream", pieces)
    assert response.status_code == 200, response.text
    assert '"written_rows": "50000"' in response.headers["X-ClickHouse-Summary"]
    assert post(clickhouse, f"SELECT count(), sum(a) FROM {table}").text == "50000\t1249975000\n"


def test_insert_of_a_client_that_disconnects_writes_no_rows(clickhouse: Endpoint, table: str) -> None:
    post(clickhouse, f"CREATE TABLE {table} (a Int64) ENGINE = MergeTree ORDER BY a")
    parameters = {
        "query": f"INSERT INTO {table} FORMAT TSV",
        "user": clickhouse.user,
        "password": clickhouse.password,
    }
    with socket.create_connection((clickhouse.host, clickhouse.port)) as sock:
        head = f"POST /?{urlencode(parameters)} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        sock.sendall(head.encode() + b"1\n2\n3\n" * 1000)
    assert post(clickhouse, f"SELECT count() FROM {table}").text == "0\n"


def test_query_ends_when_its_client_disconnects(clickhouse: Endpoint) -> None:
    with under_way(clickhouse):
        pass
    running = "SELECT count() FROM system.processes WHERE query LIKE '%system.numbers%RowBinary'"
    wait_until(lambda: post(clickhouse, running).text == "0\n", what="the query's end")


def test_insert_that_fails_in_the_middle_of_its_body_returns_the_reason(clickhouse: Endpoint, table: str) -> None:
    post(clickhouse, f"CREATE TABLE {table} (a Int64) ENGINE = MergeTree ORDER BY a")
    response = post(clickhouse, f"INSERT INTO {table} FORMAT TSV", b"1\n" * 100_000 + b"x\n" + b"2\n" * 1_000_000)
    assert response.status_code == 400 and "Cannot parse" in response.text
    assert post(clickhouse, f"SELECT count() FROM {table}").text == "0\n"


def test_body_that_does_not_match_its_encoding_is_refused(clickhouse: Endpoint, table: str) -> None:
    post(clickhouse, f"CREATE TABLE {table} (a Int64) ENGINE = MergeTree ORDER BY a")
    url = f"http://127.0.0.1:{clickhouse.port}/?{urlencode({'query': f'INSERT INTO {table} FORMAT TSV'})}"
    auth = (clickhouse.user, clickhouse.password)
    for encoding, content in (("gzip", b"not"), ("gzip", gzip.compress(b"1\n" * 9999)[:-20]), ("br", b"x")):
        headers = {"Content-Encoding": encoding}
        response = httpx.post(url, content=content, headers=headers, auth=auth, timeout=PATIENCE)
        assert response.status_code == 500, encoding
    assert post(clickhouse, f"SELECT count() FROM {table}").text == "0\n"


def test_session_in_use_is_locked_for_other_requests(clickhouse: Endpoint) -> None:
    with under_way(clickhouse, session_id="shared-one"):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda _: post(clickhouse, "SELECT 1", session_id="shared-one"), range(3)))
        assert [answer.headers.get("X-ClickHouse-Exception-Code") for answer in answers] == ["373"] * 3
    wait_until(lambda: post(clickhouse, "SELECT 1", session_id="shared-one").text == "1\n", what="the session's turn")


def test_session_check_refuses_an_unknown_session(clickhouse: Endpoint) -> None:
    response = post(clickhouse, "SELECT 1", session_id="never", session_check="1")
    assert response.headers["X-ClickHouse-Exception-Code"] == "372"


def test_closed_session_loses_its_settings(clickhouse: Endpoint) -> None:
    post(clickhouse, "SET max_threads = 5", session_id="closing")
    assert post(clickhouse, "SELECT getSetting('max_threads')", session_id="closing", close_session="1").text == "5\n"
    assert post(clickhouse, "SELECT getSetting('max_threads')", session_id="closing").text != "5\n"


def test_query_runs_concurrently_with_a_long_one(clickhouse: Endpoint) -> None:
    with under_way(clickhouse):
        assert post(clickhouse, "SELECT 1").text == "1\n"


def test_connection_serves_further_requests_after_an_error(clickhouse: Endpoint) -> None:
    connection = http.client.HTTPConnection(clickhouse.host, clickhouse.port)
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    for query, status in [("SELECT 1", 200), ("SELEC 1", 400), ("SELECT 1", 200), ("SELECT * FROM nope", 404)] * 2:
        connection.request("POST", "/", query, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_external_data_is_refused_with_an_error_code(clickhouse: Endpoint) -> None:
    url = f"http://127.0.0.1:{clickhouse.port}/?query=SELECT+1"
    response = httpx.post(url, files={"t": b"1"}, auth=(clickhouse.user, clickhouse.password), timeout=PATIENCE)
    assert response.headers["X-ClickHouse-Exception-Code"] == "48"


def test_insert_that_violates_a_constraint_is_an_error(plain: Client, table: str) -> None:
    plain.command(f"CREATE TABLE {table} (n Int64, CONSTRAINT c CHECK n < 10) ENGINE = MergeTree ORDER BY n")
    with pytest.raises(DatabaseError, match="469"):
        plain.insert_arrow(table, pa.table({"n": pa.array(range(20))}))
    assert plain.query(f"SELECT count() FROM {table}").result_rows == [(0,)]


def test_settings_of_an_insert_are_applied(plain: Client, table: str) -> None:
    plain.command(f"CREATE TABLE {table} (n Nullable(Int64)) ENGINE = MergeTree ORDER BY tuple()")
    plain.command(f"INSERT INTO {table} (n) SETTINGS input_format_csv_empty_as_default = 1 FORMAT CSV\n7\n")
    assert plain.query(f"SELECT n FROM {table}").result_rows == [(7,)]
