"""Records in Confluent's wire form, written to Kafka by others, with their schemas in a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from helpers.kafka import SecuredBroker, produce, topic_name
from helpers.run import Run
from helpers.schema_registry import registry
from helpers.waiting import wait_until

Make = Callable[[str], Run]
OLD = {"type": "record", "name": "Q", "fields": [{"name": "symbol", "type": "string"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "bid", "type": ["null", "double"], "default": None}]}
PROTO = 'syntax = "proto3"; message Q { string symbol = 1; double bid = 2; }'
ANSWERS = {
    "/schemas/ids/1": {"schema": json.dumps(OLD)},
    "/schemas/ids/2": {"schema": json.dumps(NEW)},
    "/schemas/ids/3": {"schema": json.dumps(NEW)},
    "/subjects/q-value/versions/latest": {"id": 2, "schema": json.dumps(NEW)},
    "/schemas/ids/7": {"schema": PROTO, "schemaType": "PROTOBUF"},
    "/subjects/p-value/versions/latest": {"id": 7, "schema": PROTO, "schemaType": "PROTOBUF"},
}
PIPELINE = """
[[formats]]
name = "avro-quote"
plugin = "avro"
config = {{ registry = {{ url = "{url}", subject = "q-value", username = "alice", password = "secret" }} }}

[[formats]]
name = "proto-quote"
plugin = "protobuf"
config = {{ message = "Q", registry = {{
    url = "{url}", subject = "p-value", username = "alice", password = "secret",
}} }}

[[topics]]
name = "avro"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{avro}", partitions = 1, format = "avro-quote" }}

[[topics]]
name = "proto"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{proto}", partitions = 1, format = "proto-quote" }}
"""


def wire(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def avro(number: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return wire(number, out.getvalue())


def test_records_of_others_are_decoded_by_the_schemas_of_a_registry(gauss: Make, kafka: SecuredBroker) -> None:
    settings, names = kafka.settings, {"avro": topic_name(), "proto": topic_name()}
    with registry(ANSWERS, ("alice", "secret")) as found:
        run = gauss(PIPELINE.format(url=found.url, brokers=json.dumps(settings.brokers), **names)).start()
        assert not run.named("java"), "reading needs no Spark"
        given = [avro(1, OLD, {"symbol": "a"}), avro(2, NEW, {"symbol": "b", "bid": 1.5})]
        produce(settings, names["avro"], [(record, b"k", []) for record in given])
        produce(settings, names["proto"], [(wire(7, b"\0\x0a\x01c\x11" + b"\0" * 6 + b"\xf0\x3f"), None, [])])
        rows = wait_until(lambda: queried(run, "avro", 2), 30, run.state)
        assert rows == [{"symbol": "a", "bid": None}, {"symbol": "b", "bid": 1.5}]
        assert wait_until(lambda: queried(run, "proto", 1), 30, run.state) == [{"symbol": "c", "bid": 1.0}]
        assert scanned(run) == rows
    # The registry is gone: the engine knows these schemas, a new one is said to be out of reach.
    assert scanned(run) == rows
    produce(settings, names["avro"], [(avro(3, NEW, {"symbol": "d", "bid": 2.5}), None, [])])
    wait_until(lambda: run.topic("avro")["records"] == 3, 30, run.state)
    error = json.loads(run.cli("scan", "avro", "{symbol, bid}", "--json", check=False).stdout)["error"]
    assert error["message"].startswith(f"the schema registry at {found.url} does not answer")
    assert error["retryable"]


def queried(run: Run, topic: str, count: int) -> list[dict[str, Any]]:
    """The records of a topic once it has so many."""
    lines = run.cli("query", topic, "--format", f"{topic}-quote", "--json").stdout.splitlines()
    return [json.loads(line)["data"] for line in lines] if len(lines) == count else []


def scanned(run: Run) -> list[dict[str, Any]]:
    lines = run.cli("scan", "avro", "{symbol, bid}", "--json").stdout.splitlines()
    return [{name: row[name] for name in ("symbol", "bid")} for row in map(json.loads, lines)]
