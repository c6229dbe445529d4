"""Pipelines over HTTP: state, configs with secrets, versions, bad input."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gauss.fleet.store.differences import MASK

KAFKA = {
    "brokers": "b1:9092, b2:9092", "topic": "orders", "securityProtocol": "SASL_SSL", "saslMechanism": "SCRAM-SHA-256",
    "saslUsername": "gauss", "saslPassword": "hunter2",
}  # fmt: skip
REGISTRY = {"url": "http://registry:8081", "subject": "orders-value", "username": "gauss", "password": "hunter2"}
PROTO = {"proto_text": 'syntax = "proto3"; message Order { int64 id = 1; }', "message": "Order"}
AVRO = {**KAFKA, "format": "avro", "formatConfig": {"registry": REGISTRY}}


def test_a_pipeline_is_made_changed_and_deleted_while_it_is_started(api: httpx.Client) -> None:
    made = api.post("/api/pipelines", json={"name": "orders", "description": "of all shops"})
    assert made.status_code == 201
    path = f"/api/pipelines/{made.json()['id']}"
    assert api.get(f"{path}/state").json() == {"desired": "stopped", "replicas": 1}
    assert api.put(path, json={"name": "o2"}).json()["name"] == "o2"
    assert api.post(f"{path}/start").json() == {"desired": "started", "replicas": 1}
    assert api.patch(f"{path}/state", json={"replicas": 4}).json() == {"desired": "started", "replicas": 4}
    assert api.patch(f"{path}/state", json={"desired": "stopped"}).json() == {"desired": "stopped", "replicas": 4}
    assert api.put(f"{path}/state", json={"desired": "started", "replicas": 2}).json()["replicas"] == 2
    assert [each["name"] for each in api.get("/api/pipelines").json()] == ["o2"]
    gone = api.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    assert api.get(path).status_code == 404
    assert api.get("/api/pipelines").json() == []


@pytest.mark.parametrize("replicas", [0, -1, 1001, 10_000, 2**70, 1.5, "two", []])
def test_a_wrong_number_of_replicas_changes_nothing(api: httpx.Client, pipeline: str, replicas: Any) -> None:
    for method in ("PATCH", "PUT"):
        found = api.request(method, f"{pipeline}/state", json={"desired": "started", "replicas": replicas})
        assert found.status_code == 422
        assert found.json()["error"]["code"] == "config"
    assert api.get(f"{pipeline}/state").json() == {"desired": "stopped", "replicas": 1}


def test_secrets_are_written_and_never_read(api: httpx.Client, pipeline: str) -> None:
    answers = [
        api.put(f"{pipeline}/kafka-config", json=AVRO),
        api.put(f"{pipeline}/clickhouse-config", json={"dsn": "https://u:hunter2@h:8443"}),
        api.get(f"{pipeline}/kafka-config"),
        api.get(f"{pipeline}/clickhouse-config"),
        api.get(f"{pipeline}/versions/2"),
        api.get(f"{pipeline}/versions/diff", params={"before": 0, "after": 2}),
        api.get("/api/audit"),
        api.put(f"{pipeline}/kafka-config", json={**KAFKA, "saslPassword": ["hunter2"]}),
        api.put(f"{pipeline}/clickhouse-config", json={"dsn": "mysql://u:hunter2@h"}),
        api.post("/api/validate/clickhouse", json={"dsn": "hunter2://u:hunter2@h"}),
    ]
    assert [each.status_code for each in answers] == [200] * 7 + [422] * 3
    assert not [each.url for each in answers if "hunter2" in each.text]
    assert answers[2].json()["saslPassword"] == MASK
    assert answers[2].json()["formatConfig"] == {"registry": {**REGISTRY, "password": MASK}}
    assert answers[3].json()["dsn"] == f"https://u:{MASK}@h:8443"


def test_a_masked_secret_is_kept_only_for_the_same_server(api: httpx.Client, pipeline: str, fleet: Any) -> None:
    api.put(f"{pipeline}/kafka-config", json=AVRO)
    api.put(f"{pipeline}/clickhouse-config", json={"dsn": "http://u:hunter2@h:8123"})
    kafka, clickhouse = (api.get(f"{pipeline}/{part}").json() for part in ("kafka-config", "clickhouse-config"))
    assert api.put(f"{pipeline}/kafka-config", json={**kafka, "topic": "other"}).status_code == 200
    assert api.put(f"{pipeline}/clickhouse-config", json={**clickhouse, "batchSize": 7}).status_code == 200
    stored = fleet.store.configs.as_of(pipeline.rpartition("/")[2], 4)
    assert [sorted(config.secrets.values()) for config in stored.values()] == [["hunter2"] * 2, ["hunter2"]]
    assert "hunter2" not in str([config.document for config in stored.values()])
    elsewhere = {"registry": {**kafka["formatConfig"]["registry"], "url": "http://evil:8081"}}
    moved = api.put(f"{pipeline}/kafka-config", json={**kafka, "formatConfig": elsewhere})
    assert moved.status_code == 422
    assert "formatConfig.registry.password: give it again" in moved.json()["error"]["message"]
    moved = api.put(f"{pipeline}/kafka-config", json={**kafka, "brokers": ["evil:9092"]})
    assert moved.status_code == 422
    assert "give it again" in moved.json()["error"]["message"]
    moved = api.put(f"{pipeline}/clickhouse-config", json={"dsn": f"http://u:{MASK}@evil:8123"})
    assert moved.status_code == 422
    cleared = {**kafka, "securityProtocol": "plaintext", "saslPassword": ""}
    assert api.put(f"{pipeline}/kafka-config", json=cleared).json()["saslPassword"] == ""


@pytest.mark.parametrize(
    ("part", "body", "key"),
    [
        ("kafka-config", {**KAFKA, "brokers": "nowhere"}, "brokers"),
        ("kafka-config", {**KAFKA, "brokers": []}, "brokers"),
        ("kafka-config", {**KAFKA, "topic": "a b"}, "topic"),
        ("kafka-config", {**KAFKA, "startOffset": "tomorrow"}, "startOffset"),
        ("kafka-config", {**KAFKA, "startOffset": {"x": 1}}, "startOffset"),
        ("kafka-config", {**KAFKA, "saslUsername": ""}, "saslUsername"),
        ("kafka-config", {**KAFKA, "tlsKey": "pem"}, "tlsKey"),
        ("kafka-config", {**KAFKA, "bootstrap": "x"}, "bootstrap"),
        ("kafka-config", {**AVRO, "formatConfig": {"schema_file": "/etc/passwd"}}, "schema_file"),
        ("kafka-config", {**AVRO, "formatConfig": {"registry": {"schemas": {"7": "/etc/passwd"}}}}, "schemas"),
        ("kafka-config", {**AVRO, "formatConfig": {"registry": {"url": "http://u:pw@r"}}}, "registry.url"),
        ("kafka-config", {**AVRO, "formatConfig": {"registry": {**REGISTRY, "passwd": "pw"}}}, "passwd"),
        ("kafka-config", {**AVRO, "formatConfig": {"schema_text": "{"}}, "schema_text"),
        ("kafka-config", {**KAFKA, "format": "protobuf", "formatConfig": PROTO | {"message": "No"}}, "No"),
        ("kafka-config", {**KAFKA, "format": "protobuf"}, "message"),
        ("clickhouse-config", {"dsn": "http://h", "batchSize": 0}, "batchSize"),
        ("clickhouse-config", {"dsn": "http://h", "insertRateLimit": -1}, "insertRateLimit"),
        ("clickhouse-config", {}, "dsn"),
        ("filters-config", {"enabled": True, "expression": ".a >"}, "unexpected"),
        ("filters-config", {"enabled": True, "language": "cel", "expression": "true"}, "language"),
        ("mapping", {"columns": [{"fieldPath": "a", "column": "a", "type": "Nope"}]}, "Nope"),
        ("mapping", {"columns": "all"}, "columns"),
        ("kafka-config", {**KAFKA, "formatConfig": {"x": "\ud800"}}, "surrogate"),
    ],
)
def test_a_wrong_config_is_refused_with_its_key(
    api: httpx.Client, pipeline: str, part: str, body: dict[str, Any], key: str
) -> None:
    found = api.put(f"{pipeline}/{part}", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert found.status_code == 422
    assert key in found.json()["error"]["message"]
    assert api.get(pipeline).json()["version"] == 0


@pytest.mark.parametrize("offset", ["latest", "2026-01-31T10:00:00Z", {"0": 5, "12": 0}])
def test_all_kinds_of_start_offsets_are_kept(api: httpx.Client, pipeline: str, offset: Any) -> None:
    config = {"brokers": ["b:1"], "topic": "t", "startOffset": offset}
    assert api.put(f"{pipeline}/kafka-config", json=config).json()["startOffset"] == offset


def test_versions_are_listed_compared_and_rolled_back(api: httpx.Client, pipeline: str) -> None:
    for topic in ("a", "b"):
        api.put(f"{pipeline}/kafka-config", json={**KAFKA, "topic": topic, "saslPassword": f"of {topic}"})
    found = api.get(f"{pipeline}/versions/diff", params={"before": 1, "after": 2}).json()
    assert found == [
        {"path": "kafka.saslPassword", "before": MASK, "after": MASK},
        {"path": "kafka.topic", "before": "a", "after": "b"},
    ]
    assert api.post(f"{pipeline}/versions/1/rollback").json() == {"version": 3}
    assert api.get(f"{pipeline}/kafka-config").json()["topic"] == "a"
    assert [each["note"] for each in api.get(f"{pipeline}/versions").json()] == ["rollback to 1", "", ""]
    for path in ("versions/4", "versions/-1", f"versions/{2**80}"):
        assert api.get(f"{pipeline}/{path}").status_code == 404
        assert api.post(f"{pipeline}/{path}/rollback").status_code == 404


def test_filters_are_evaluated_on_samples(api: httpx.Client, pipeline: str) -> None:
    def evaluate(expression: str, sample: Any) -> dict[str, Any]:
        body = json.dumps({"expression": expression, "sample": sample})  # httpx's own JSON refuses surrogates
        headers = {"Content-Type": "application/json"}
        found: dict[str, Any] = api.post(f"{pipeline}/filters-eval", content=body, headers=headers).json()
        return found

    record = {"order": {"price": 5}, "kind": "buy"}
    assert evaluate('.order.price >= 5 and .kind == "buy"', record) == {"result": True, "error": None}
    assert evaluate(".order.price > 5", record)["result"] is False
    assert evaluate(".missing.field == 1", record) == {"result": False, "error": None}
    for expression, result in (("true", True), ("1 == 1", True), ("not true", False), ("null", False)):
        assert evaluate(expression, record)["result"] is result
    wrong = ((".a >", record), (".order.price > 1", "{"), (".kind > 1", record), (".kind == 1", "\ud800"))
    for expression, sample in wrong:
        found = evaluate(expression, sample)
        assert found["result"] is False
        assert found["error"]


def test_requests_that_do_not_fit_have_the_one_error_shape(api: httpx.Client, pipeline: str) -> None:
    answers = [
        api.post("/api/pipelines", json={}),
        api.post("/api/pipelines", json={"name": ""}),
        api.post("/api/pipelines", json={"name": "x\0y"}),
        api.post("/api/pipelines", json={"name": "x", "id": "mine"}),
        api.post("/api/pipelines", content=b'{"name": "\\ud800"}', headers={"Content-Type": "application/json"}),
        api.post("/api/pipelines", content=b"{"),
        api.get("/api/pipelines/nobody"),
        api.get("/api/pipelines/%00"),
        api.get("/api/pipelines/x%00y/status?a=%00"),
        api.get(f"{pipeline}/mapping"),
        api.get(f"{pipeline}/sample"),
        api.get(f"{pipeline}/dead-letters?limit=0"),
        api.get("/api/audit?before=-1"),
        api.post("/api/tokens", json={"name": "x", "role": "god"}),
        api.delete("/api/tokens/nobody"),
        api.delete("/api/pipelines"),
        api.put(f"{pipeline}/mapping", content=b"[" * 2_000_000),
    ]
    codes = [422] * 6 + [404, 422, 422, 404, 404, 422, 422, 422, 404, 405, 413]
    assert [each.status_code for each in answers] == codes
    for each in answers:
        assert set(each.json()["error"]) == {"code", "message", "hint", "retryable"}


def test_a_mapping_of_a_megabyte_is_kept_or_refused_in_the_one_shape(api: httpx.Client, pipeline: str) -> None:
    columns = [{"fieldPath": f"a.{n}", "column": f"c{n}", "type": "String"} for n in range(20_000)]
    body = json.dumps({"columns": columns}).encode()
    assert len(body) > 1 << 20
    answer = api.put(f"{pipeline}/mapping", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 413, 422), answer.text[:300]
    if answer.status_code != 200:
        assert set(answer.json()["error"]) == {"code", "message", "hint", "retryable"}
        assert len(answer.text) < 2_000
        assert api.get(pipeline).json()["version"] == 0
    else:
        assert len(api.get(f"{pipeline}/mapping").json()["columns"]) == 20_000


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "'; DROP TABLE pipelines; --", "../../etc", "名前 \U0001f600"]
)
def test_hostile_names_are_only_names(api: httpx.Client, name: str) -> None:
    made = api.post("/api/pipelines", json={"name": name}).json()
    assert api.get(f"/api/pipelines/{made['id']}").json()["name"] == name
    assert name in [each["name"] for each in api.get("/api/pipelines").json()]
