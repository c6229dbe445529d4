"""Records of every format become rows by one worker, with schemas that the config has as text."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from gauss.clients.embedded import EmbeddedServer
from gauss.config.formats import build_format
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.mapping.samples import propose_from
from gauss.fleet.store.configs import Kind
from helpers.fleet import LocalRunner, World
from helpers.kafka import SecuredBroker
from helpers.waiting import wait_until

FORMATS: dict[str, dict[str, Any]] = {
    "avro": {
        "schema_text": '{"type": "record", "name": "r", "fields":'
        ' [{"name": "id", "type": "long"}, {"name": "kind", "type": "string"}]}'
    },
    "protobuf": {
        "proto_text": 'syntax = "proto3"; message Order { int64 id = 1; string kind = 2; }',
        "message": "Order",
    },
    "msgpack": {},
    "csv": {"fields": [{"name": "id", "type": "int64"}, {"name": "kind", "type": "string"}]},
}
RECORDS = 20
BAD = b"\xc1\xff"
"""A record of none of the formats."""


def test_records_of_every_format_become_rows(tmp_path: Path, kafka: SecuredBroker, clickhouse: EmbeddedServer) -> None:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "keys" / "fleet.key")
    worlds = {name: World(store, kafka.broker.address, clickhouse.endpoint) for name in FORMATS}
    for name, world in worlds.items():
        encode = build_format(name, FORMATS[name]).encode
        data = [encode({"id": number, "kind": "ab"[number % 2]}) for number in range(RECORDS)]
        kafka_config = {"brokers": world.brokers, "topic": world.topic, "format": name, "formatConfig": FORMATS[name]}
        world.put(Kind.KAFKA, kafka_config)
        mapping = propose_from(data, name, FORMATS[name]).mapping
        world.put(Kind.MAPPING, mapping.model_dump(mode="json", by_alias=True))
        world.produce(*data, BAD)
        world.want()
    first = next(iter(worlds.values()))
    first.work(LocalRunner())
    try:
        for name, world in worlds.items():
            world.wait_rows(RECORDS)
            kinds = world.query("SELECT id, kind FROM {table} ORDER BY id")
            assert kinds == list(zip(range(RECORDS), itertools.cycle("ab"), strict=False)), name
            wait_until(lambda world=world: store.letters.list(world.id))  # type: ignore[misc]
            (letter,) = store.letters.list(world.id)
            assert (letter.letter.stage, letter.letter.data) == ("decode", BAD), name
    finally:
        first.stop()
        store.close()
