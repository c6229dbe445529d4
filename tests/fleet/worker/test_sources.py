"""Where and how records are read: offsets to start at, logins, and a schema registry."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from gauss.config.formats import build_format
from gauss.fleet.store.configs import Kind
from helpers.fleet import LocalRunner, World
from helpers.kafka import PASSWORDS, SecuredBroker
from helpers.schema_registry import registry

pytestmark = pytest.mark.system

COLUMNS = {"id": "Int64", "name": "String"}
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
)


def test_a_time_as_start_leaves_out_what_was_produced_before(world: World) -> None:
    world.ids(0, 30)
    time.sleep(0.1)
    moment = datetime.now(UTC).isoformat()
    time.sleep(0.1)
    world.ids(30, 60)
    world.put(Kind.KAFKA, {"brokers": world.brokers, "topic": world.topic, "startOffset": moment})
    world.want()
    world.work(LocalRunner())
    world.wait_rows(30)
    assert world.rows() == list(range(30, 60))


def test_offsets_of_partitions_as_start_and_the_others_are_read_from_their_beginning(world: World) -> None:
    world.ids(0, 60)
    world.put(Kind.KAFKA, {"brokers": world.brokers, "topic": world.topic, "startOffset": {"0": 15, "1": 20}})
    world.want()
    world.work(LocalRunner())
    world.wait_rows(5 + 20)
    assert world.rows() == sorted([*range(45, 60, 3), *range(2, 60, 3)])


def with_password(kafka: SecuredBroker) -> dict[str, Any]:
    login = {"saslUsername": "alice", "saslPassword": PASSWORDS["alice"], "saslMechanism": "SCRAM-SHA-512"}
    return {**login, "securityProtocol": "sasl_ssl", "tlsCa": kafka.ca.read_text()}


def with_certificate(kafka: SecuredBroker) -> dict[str, Any]:
    own = {"tlsCert": kafka.certificate.read_text(), "tlsKey": kafka.key.read_text()}
    return {**own, "securityProtocol": "ssl", "tlsCa": kafka.ca.read_text()}


@pytest.mark.parametrize("login", [with_password, with_certificate])
def test_records_come_over_tls_with_a_password_or_a_certificate(
    world: World, kafka: SecuredBroker, login: Callable[[SecuredBroker], dict[str, Any]]
) -> None:
    given = login(kafka)
    brokers = [f"127.0.0.1:{kafka.ports[given['securityProtocol'].upper()]}"]
    world.put(Kind.KAFKA, {"brokers": brokers, "topic": world.topic, **given})
    world.want()
    world.work(LocalRunner())
    world.more(60)
    world.wait_sent()


def test_records_of_a_schema_registry_with_a_password_become_rows_and_others_dead_letters(world: World) -> None:
    """Schemas as text are tried with the formats themselves."""
    answers = {
        "/schemas/ids/3": {"schema": AVRO},
        "/subjects/orders-value/versions/latest": {"id": 3, "schema": AVRO},
    }
    with registry(answers, login=("alice", "sealed")) as found:
        login = {"url": found.url, "subject": "orders-value", "username": "alice", "password": "sealed"}
        encode = build_format("avro", {"registry": login}).encode
        kafka = {"brokers": world.brokers, "topic": world.topic, "format": "avro"}
        world.put(Kind.KAFKA, {**kafka, "formatConfig": {"registry": login}})
        columns = [{"fieldPath": each, "column": each, "type": kind} for each, kind in COLUMNS.items()]
        world.put(Kind.MAPPING, {"columns": columns, "orderBy": ["id"]})
        world.produce(*(encode({"id": number, "name": f"n{number}"}) for number in range(60)), b"\xff")
        world.want()
        world.work(LocalRunner())
        world.wait_rows(60)
    assert world.query("SELECT id, name FROM {table} ORDER BY id") == [(each, f"n{each}") for each in range(60)]
    (letter,) = world.store.letters.list(world.id)
    assert (letter.letter.stage, letter.letter.data) == ("decode", b"\xff")
