"""Mappings, filters and tables that are not saved, with a real broker and a real ClickHouse."""

from __future__ import annotations

import json
import time
from typing import Any

import confluent_kafka
import httpx
import msgspec
import pytest

from api.fleet.conftest import Fleet, dsn_of
from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer
from gauss.clients.kafka.admin import Admin
from gauss.fleet.config.clickhouse import ClickHouseConfig
from gauss.fleet.store.access import Role
from helpers.kafka import SecuredBroker, settings

RECORDS: tuple[bytes | None, ...] = (
    *(json.dumps({"id": number, "price": f"{number}.50", "ship": {"country": "US"}}).encode() for number in range(6)),
    b'{"id": 6, "price": "n/a", "ship": {"country": "CA"}}',
    b'{"id": 7, "price": "7.50"}',
    b"{not json",
    None,
)
COLUMNS: list[dict[str, Any]] = [
    {"fieldPath": "id", "column": "id", "type": "UInt8"},
    {"fieldPath": "price", "column": "price", "type": "Decimal(18, 4)"},
    {"fieldPath": "ship.country", "column": "ship_country", "type": "LowCardinality(String)"},
]


@pytest.fixture(scope="module")
def topic(kafka: SecuredBroker) -> str:
    """A topic whose last records do not fit."""
    name = f"drafts{time.monotonic_ns()}"
    Admin(settings(kafka.broker.address)).create(name, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.broker.address})
    for each in RECORDS:
        producer.produce(name, each, partition=0)
    producer.flush()
    return name


@pytest.fixture
def sourced(api: httpx.Client, pipeline: str, kafka: SecuredBroker, topic: str) -> str:
    given = {"brokers": kafka.broker.address, "topic": topic}
    assert api.put(f"{pipeline}/kafka-config", json=given).status_code == 200
    return pipeline


def draft(api: httpx.Client, path: str, **given: Any) -> dict[str, Any]:
    found = api.post(f"{path}/preview", json={"from": "beginning", **given})
    assert found.status_code == 200, found.text
    return dict(found.json())


def test_a_draft_shows_rows_faults_by_column_and_fixes_that_fit(api: httpx.Client, sourced: str) -> None:
    found = draft(api, sourced, mapping={"columns": COLUMNS, "orderBy": ["id"]})
    assert [each["mapped"] is not None for each in found["rows"]] == [True] * 6 + [False] * 4
    assert found["rows"][0]["mapped"] == {"id": 0, "price": "0.5000", "ship_country": "US"}
    assert "`price` Decimal(18, 4)" in found["ddl"]
    price, country = found["columns"]
    assert (price["column"], [each["row"] for each in price["faults"]]) == ("price", [6])
    assert (country["column"], [each["row"] for each in country["faults"]]) == ("ship_country", [7])
    assert {"type": "String", "nullable": False, "encoding": None, "fits": 8} in price["fixes"]
    assert country["fixes"][0] == {"type": "LowCardinality(String)", "nullable": True, "encoding": None, "fits": 8}

    columns = [
        column | {key: fix[key] for key in ("type", "nullable", "encoding")}
        for column, fix in zip(COLUMNS[1:], (price["fixes"][0], country["fixes"][0]), strict=True)
    ]
    mended = draft(api, sourced, mapping={"columns": [COLUMNS[0], *columns]})
    assert mended["columns"] == []
    assert [each["error"]["reason"] for each in mended["rows"] if each["error"]] == ["bad_json", "tombstone"]


def test_samples_stay_the_same_until_they_are_asked_anew(api: httpx.Client, sourced: str, kafka: SecuredBroker) -> None:
    name = api.get(f"{sourced}/kafka-config").json()["topic"]
    before = draft(api, sourced, limit=3, **{"from": "end"})["rows"]
    assert [each["offset"] for each in before] == [7, 8, 9]
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.broker.address})
    producer.produce(name, b'{"id": 8, "price": "8.50", "ship": {"country": "US"}}', partition=0)
    producer.flush()
    assert draft(api, sourced, limit=3, **{"from": "end"})["rows"] == before
    anew = draft(api, sourced, limit=3, anew=True, **{"from": "end"})["rows"]
    assert [each["offset"] for each in anew] == [8, 9, 10]


def test_records_that_are_no_text_are_shown_as_json(api: httpx.Client, pipeline: str, kafka: SecuredBroker) -> None:
    name = f"packed{time.monotonic_ns()}"
    Admin(settings(kafka.broker.address)).create(name, 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.broker.address})
    for record in ({"id": 1, "of": [1, "x"], "name": "a"}, {"id": 2, "of": {"a": 1}, "name": "b"}):
        producer.produce(name, msgspec.msgpack.encode(record), partition=0)
    producer.produce(name, b"\xc1", partition=0)
    producer.flush()
    given = {"brokers": kafka.broker.address, "topic": name, "format": "msgpack"}
    assert api.put(f"{pipeline}/kafka-config", json=given).status_code == 200
    proposal = api.get(f"{pipeline}/proposal").json()
    assert [each["column"] for each in proposal["mapping"]["columns"]] == ["id", "name"]
    assert proposal["ignored"] == ["of"]
    found = draft(api, pipeline, mapping=proposal["mapping"])
    assert json.loads(found["rows"][0]["raw"]) == {"id": 1, "of": [1, "x"], "name": "a"}
    assert [each["error"] is None for each in found["rows"]] == [True, True, False]
    refused = api.post(f"{pipeline}/preview", json={"mapping": {"columns": [{**COLUMNS[0], "encoding": "json"}]}})
    assert (refused.status_code, "no JSON text" in refused.text) == (422, True)


def test_a_filter_is_tried_on_every_sample(api: httpx.Client, sourced: str) -> None:
    found = draft(api, sourced, filter='.id > 3 and .ship.country == "US"')
    kept = [each["kept"] for each in found["rows"]]
    assert kept[:10] == [False] * 4 + [True] * 2 + [False] * 2 + [None] * 2
    wrong = draft(api, sourced, filter=".id >")
    assert wrong["filterError"]
    assert {each["kept"] for each in wrong["rows"]} == {None}
    assert {each["kept"] for each in draft(api, sourced)["rows"]} == {None}


def test_a_wrong_mapping_is_refused_with_the_column(api: httpx.Client, sourced: str) -> None:
    columns = [COLUMNS[0], {**COLUMNS[1], "type": "Decimals"}]
    found = api.post(f"{sourced}/preview", json={"mapping": {"columns": columns}})
    assert found.status_code == 422
    assert found.json()["error"]["message"].startswith("columns.1.type: ")


def test_a_pipeline_without_a_topic_has_no_samples(api: httpx.Client, pipeline: str) -> None:
    assert api.post(f"{pipeline}/preview", json={}).status_code == 404


def test_brokers_are_asked_before_their_config_is_saved(api: httpx.Client, sourced: str) -> None:
    saved = api.get(f"{sourced}/kafka-config").json()
    assert api.post(f"{sourced}/draft/kafka", json={"kafka": saved}).json()["partitions"] == 1
    missing = api.post(f"{sourced}/draft/kafka", json={"kafka": {**saved, "topic": "nowhere"}}).json()
    assert (missing["ok"], "nowhere" in missing["message"]) == (False, True)
    assert api.get(f"{sourced}/kafka-config").json() == saved


def test_a_server_is_looked_at_before_it_is_saved(api: httpx.Client, sourced: str, clickhouse: EmbeddedServer) -> None:
    path, dsn = f"{sourced}/draft/clickhouse", dsn_of(clickhouse)
    found = api.post(path, json={"clickhouse": {"dsn": dsn}}).json()
    assert found["ok"]
    assert "default" in found["databases"]
    missing = api.post(path, json={"clickhouse": {"dsn": dsn, "database": "nowhere"}}).json()
    assert (missing["ok"], "default" in missing["databases"]) == (False, True)
    gone = api.post(path, json={"clickhouse": {"dsn": "http://127.0.0.1:1"}}).json()
    assert (gone["ok"], gone["databases"]) == (False, [])
    assert api.post(path, json={"clickhouse": {"dsn": "ftp://x"}}).status_code == 422
    assert api.get(f"{sourced}/clickhouse-config").status_code == 404


def test_the_saved_password_serves_its_own_server_only(
    api: httpx.Client, sourced: str, clickhouse: EmbeddedServer
) -> None:
    assert api.put(f"{sourced}/clickhouse-config", json={"dsn": dsn_of(clickhouse)}).status_code == 200
    masked = api.get(f"{sourced}/clickhouse-config").json()
    assert clickhouse.endpoint.password not in masked["dsn"]
    path = f"{sourced}/draft/clickhouse"
    assert api.post(path, json={"clickhouse": masked}).json()["ok"]
    elsewhere = masked | {"dsn": masked["dsn"].replace(str(clickhouse.endpoint.port), "1")}
    assert api.post(path, json={"clickhouse": elsewhere}).status_code == 422


def test_a_table_is_compared_with_a_mapping_that_is_not_saved(
    api: httpx.Client, sourced: str, clickhouse: EmbeddedServer
) -> None:
    dsn, path = dsn_of(clickhouse), f"{sourced}/draft/table"
    given = {"clickhouse": {"dsn": dsn, "table": "theirs"}, "mapping": {"columns": COLUMNS[:1], "orderBy": ["id"]}}
    found = api.post(path, json=given).json()
    assert (found["ok"], found["exists"], found["guarantee"]) == (True, False, "exactly once")
    client = connect(ClickHouseConfig(dsn=dsn).address())
    try:
        client.command("CREATE TABLE theirs (id UInt8) ENGINE = MergeTree ORDER BY id")
        found = api.post(path, json=given).json()
        assert (found["exists"], found["guarantee"].startswith("at least once")) == (True, True)
        assert {each["name"] for each in found["differences"] if each["change"] == "add"} == {"_inc", "_offset"}
    finally:
        client.command("DROP TABLE IF EXISTS theirs")
        client.close()


def test_a_table_that_clickhouse_would_not_make_is_found_before(
    api: httpx.Client, sourced: str, clickhouse: EmbeddedServer
) -> None:
    server = {"dsn": dsn_of(clickhouse), "table": "untried"}
    faults: tuple[tuple[dict[str, Any], str], ...] = (
        ({"ttl": "id"}, "TTL"),
        ({"partitionBy": "toYYYYMM(id)"}, "toYYYYMM"),
        ({"columns": [COLUMNS[0] | {"nullable": True}]}, "nullable"),
    )
    for given, word in faults:
        mapping = {"columns": COLUMNS, "orderBy": ["id"], **given}
        found = api.post(f"{sourced}/draft/table", json={"clickhouse": server, "mapping": mapping}).json()
        assert (found["ok"], word in found["message"], bool(found["ddl"])) == (False, True, True), found
    mapping = {"columns": COLUMNS, "orderBy": ["id"], "engine": "ReplacingMergeTree", "partitionBy": "id % 4"}
    assert api.post(f"{sourced}/draft/table", json={"clickhouse": server, "mapping": mapping}).json()["ok"]
    assert api.put(f"{sourced}/clickhouse-config", json=server).status_code == 200
    assert "untried" not in api.get(f"{sourced}/clickhouse/tables", params={"db": "default"}).json()


def test_viewers_try_mappings_and_do_not_ask_servers(fleet: Fleet, sourced: str) -> None:
    with fleet.client(Role.VIEWER) as viewer:
        assert viewer.post(f"{sourced}/preview", json={}).status_code == 200
        for part in ("kafka", "clickhouse", "table"):
            assert viewer.post(f"{sourced}/draft/{part}", json={}).status_code == 403
