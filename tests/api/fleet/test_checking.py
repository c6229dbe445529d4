"""Validation, samples and previews with a real broker and a real ClickHouse."""

from __future__ import annotations

import json
import time
from typing import Any

import confluent_kafka
import httpx
import pytest

from api.fleet.conftest import dsn_of
from gauss.clients.embedded import EmbeddedServer
from gauss.clients.kafka.admin import Admin
from gauss.fleet.sampling import sample
from helpers.kafka import SecuredBroker, settings

ROWS = 30


@pytest.fixture(scope="module")
def topic(kafka: SecuredBroker) -> str:
    """A topic of two partitions with good and bad records."""
    name = f"orders{time.monotonic_ns()}"
    Admin(settings(kafka.broker.address)).create(name, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.broker.address})
    for number in range(ROWS):
        record = {"id": number, "kind": "ab"[number % 2], "order": {"price": f"{number}.50"}}
        producer.produce(name, json.dumps(record).encode(), partition=number % 2)
    producer.produce(name, b"{not json", partition=0)
    producer.produce(name, b'{"id": "x", "kind": "a", "order": {"price": "1.5"}}', partition=1)
    producer.flush()
    return name


@pytest.fixture
def configured(api: httpx.Client, pipeline: str, kafka: SecuredBroker, topic: str, clickhouse: EmbeddedServer) -> str:
    assert (
        api.put(f"{pipeline}/kafka-config", json={"brokers": kafka.broker.address, "topic": topic}).status_code == 200
    )
    assert api.put(f"{pipeline}/clickhouse-config", json={"dsn": dsn_of(clickhouse), "table": topic}).status_code == 200
    return pipeline


def test_a_mapping_is_sampled_previewed_and_its_table_made(api: httpx.Client, configured: str, topic: str) -> None:
    inferred = api.get(f"{configured}/sample", params={"limit": 20, "from": "beginning"}).json()
    assert [(each["fieldPath"], each["column"], each["type"], each["nullable"]) for each in inferred] == [
        ("id", "id", "Int64", False),
        ("kind", "kind", "LowCardinality(String)", False),
        ("order.price", "order_price", "Decimal(18, 2)", False),
    ]
    proposal = api.get(f"{configured}/proposal", params={"from": "beginning", "limit": 20}).json()
    assert api.put(f"{configured}/mapping", json=proposal["mapping"]).status_code == 200
    rows = api.get(f"{configured}/preview", params={"limit": 1_000, "from": "beginning"}).json()
    assert len(rows) == ROWS + 2
    good = [each["mapped"] for each in rows if each["error"] is None]
    assert sorted(each["id"] for each in good) == list(range(ROWS))
    assert {each["order_price"] for each in good} == {f"{number}.50" for number in range(ROWS)}
    bad = {each["raw"]: each["error"]["reason"] for each in rows if each["error"] is not None}
    assert set(bad.values()) == {"bad_json", "wrong_type"}
    api.put(f"{configured}/filters-config", json={"enabled": True, "expression": ".id >= 10"})
    rows = api.get(f"{configured}/preview", params={"limit": 1_000, "from": "beginning"}).json()
    assert sorted(each["mapped"]["id"] for each in rows if each["kept"]) == list(range(10, ROWS))
    assert [(each["mapped"], each["error"]) for each in rows if each["kept"] is False] == [(None, None)] * 10
    assert [(each["mapped"], each["error"]["stage"]) for each in rows if each["kept"] is None] == [(None, "filter")] * 2

    missing = api.post(f"{configured}/validate/clickhouse-table", json={}).json()
    assert (missing["ok"], missing["exists"]) == (True, False)
    assert "`order_price` Decimal(18, 2)" in missing["ddl"]
    made = api.post(f"{configured}/validate/clickhouse-table", json={"create": True}).json()
    assert (made["ok"], made["exists"], made["guarantee"]) == (True, True, "exactly once")
    other = [{"fieldPath": "id", "column": "id", "type": "String"}]
    differs = api.post(f"{configured}/validate/clickhouse-table", json={"columns": other}).json()
    assert not differs["ok"]
    assert {(each["change"], each["name"]) for each in differs["differences"]} >= {("type", "id"), ("extra", "kind")}

    assert "default" in api.get(f"{configured}/clickhouse/databases").json()
    assert topic in api.get(f"{configured}/clickhouse/tables", params={"db": "default"}).json()
    columns = api.get(f"{configured}/clickhouse/schema", params={"db": "default", "table": topic}).json()
    assert {"name": "order_price", "type": "Decimal(18, 2)", "default": ""} in columns
    unknown = api.get(f"{configured}/clickhouse/schema", params={"db": "default", "table": "nope"})
    assert unknown.status_code == 404


def test_samples_come_from_where_they_are_asked(api: httpx.Client, configured: str) -> None:
    mapping = {"columns": [{"fieldPath": "id", "column": "id", "type": "Int64"}]}
    api.put(f"{configured}/mapping", json=mapping)

    def offsets(start: str) -> set[int]:
        rows = api.get(f"{configured}/preview", params={"limit": 4, "from": start}).json()
        return {each["offset"] for each in rows}

    assert offsets("beginning") == {0, 1}
    assert offsets("end") == {ROWS // 2 - 1, ROWS // 2}
    assert offsets("-1h") == {0, 1}
    assert offsets(str(int(time.time() * 1000) + 60_000)) == set()
    assert api.get(f"{configured}/preview", params={"from": "yesterday"}).status_code == 422


def test_the_last_records_are_found_behind_the_markers_of_transactions(kafka: SecuredBroker) -> None:
    name, partitions = f"paid{time.monotonic_ns()}", 4
    cluster = settings(kafka.broker.address)
    Admin(cluster).create(name, partitions)
    conf: dict[str, Any] = {"bootstrap.servers": kafka.broker.address, "transactional.id": name}
    producer = confluent_kafka.Producer(conf)
    producer.init_transactions()
    for number in range(3):  # each ends with a marker in each partition, at an offset of its own
        producer.begin_transaction()
        for partition in range(partitions - 1):  # the last partition is empty
            producer.produce(name, f"{number} of {partition}", partition=partition)
        producer.commit_transaction()
    for limit, start, wanted in ((3, "end", {2}), (6, "end", {1, 2}), (3, "beginning", {0}), (100, "end", {0, 1, 2})):
        found = [(each.data or b"").decode() for each in sample(cluster, name, limit, start)]
        assert sorted(found) == sorted(f"{number} of {partition}" for number in wanted for partition in range(3))


def test_servers_are_validated(api: httpx.Client, configured: str, kafka: SecuredBroker) -> None:
    found = api.post(f"{configured}/validate/kafka").json()
    assert (found["ok"], found["partitions"]) == (True, 2)
    assert api.post(f"{configured}/validate/clickhouse").json()["ok"] is True
    inline: list[tuple[str, dict[str, Any]]] = [
        ("kafka", {"brokers": kafka.broker.address, "topic": "nowhere"}),
        ("clickhouse", {"dsn": "http://127.0.0.1:1"}),
    ]
    for path, body in inline:
        found = api.post(f"/api/validate/{path}", json=body).json()
        assert found["ok"] is False
        assert found["message"]


def test_brokers_that_do_not_answer_are_told_at_once(api: httpx.Client, kafka: SecuredBroker) -> None:
    def message(*brokers: str) -> str:
        found = api.post("/api/validate/kafka", json={"brokers": brokers, "topic": "nowhere"}).json()
        assert found["ok"] is False
        return str(found["message"])

    gone = message("127.0.0.1:1", "no-host.invalid:9092")
    assert gone == "nothing listens at 127.0.0.1:1; no host has the name in no-host.invalid:9092"
    assert "UNKNOWN_TOPIC" in message("127.0.0.1:1", kafka.broker.address)
