"""Login and encryption by the admin client and by the handles of the C library."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.producer import Producer
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.reading import Range, RangeReader
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.model.errors import ConfigError
from helpers.kafka import PASSWORDS, SecuredBroker, data_of, numbered, produce

ONE = Partitioning(1)
ALICE = {"username": "alice", "password": PASSWORDS["alice"]}
BOB = {"username": "bob", "password": PASSWORDS["bob"]}


def ways(kafka: SecuredBroker) -> dict[str, KafkaSettings]:
    tls: dict[str, Any] = {"ca_file": kafka.ca}
    own = {"certificate_file": kafka.certificate, "private_key_file": kafka.key}
    texts = {
        "ca_pem": kafka.ca.read_text(),
        "certificate_pem": kafka.certificate.read_text(),
        "private_key_pem": kafka.key.read_text(),
    }
    return {
        "plain": kafka.secured("SASL_PLAINTEXT", **ALICE),
        "scram-256": kafka.secured("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", **ALICE),
        "scram-512 over tls": kafka.secured("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", **ALICE, **tls),
        "tls by files": kafka.secured("SSL", **tls, **own),
        "tls by texts": kafka.secured("SSL", **texts),
    }


@pytest.mark.parametrize("way", ["plain", "scram-256", "scram-512 over tls", "tls by files", "tls by texts"])
def test_records_are_written_and_read(kafka: SecuredBroker, topic: str, way: str) -> None:
    settings = ways(kafka)[way]
    with TransactionalProducer(settings, topic) as producer:
        producer.begin()
        producer.write(topic, numbered(range(10)), ONE)
        producer.commit()
    assert Admin(settings).latest(topic, [0])[0] >= 10
    assert data_of(CompiledReader(settings), topic, {0: 10}) == [b"%d" % number for number in range(10)]


def refused(kafka: SecuredBroker) -> dict[str, KafkaSettings]:
    return {
        "wrong password": kafka.secured("SASL_PLAINTEXT", username="alice", password="wrong"),
        "wrong scram": kafka.secured(
            "SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", username="alice", password="wrong"
        ),
        "unknown authority": kafka.secured("SASL_SSL", **ALICE),
        "no certificate": kafka.secured("SSL", ca_file=kafka.ca),
    }


@pytest.mark.parametrize("way", ["wrong password", "wrong scram", "unknown authority"])
def test_a_client_that_is_refused_says_so_before_any_timeout(kafka: SecuredBroker, topic: str, way: str) -> None:
    settings = refused(kafka)[way]
    with pytest.raises(ConfigError, match=r"_AUTHENTICATION|_SSL"):
        list(CompiledReader(settings).read(Range(topic, 0, 0, 1)))
    with Producer(settings) as producer, pytest.raises(ConfigError, match=r"_AUTHENTICATION|_SSL"):
        producer.write(topic, numbered([1]), ONE)
        producer.flush()
    with pytest.raises(ConfigError, match=r"_AUTHENTICATION|_SSL"):
        TransactionalProducer(settings, topic)


def test_a_key_that_can_not_be_read_is_a_fault_of_the_config(kafka: SecuredBroker) -> None:
    settings = kafka.secured("SSL", ca_pem="not a PEM")
    with pytest.raises(ConfigError, match=r"ssl.ca.pem|CA certificate") as raised:
        list(CompiledReader(settings).read(Range("t", 0, 0, 1)))
    assert "ca_file" in raised.value.hint


def test_a_user_without_rights_learns_which(kafka: SecuredBroker, topic: str) -> None:
    produce(kafka.settings, topic, [(b"x", None, [])])
    settings = kafka.secured("SASL_PLAINTEXT", **BOB)
    for call in (
        lambda: Admin(settings).describe(topic),
        lambda: list(CompiledReader(settings).read(Range(topic, 0, 0, 1))),
    ):
        with pytest.raises(ConfigError, match="TOPIC_AUTHORIZATION_FAILED") as raised:
            call()
        assert "the topic" in raised.value.hint
    # Who may write to no topic is refused a producer id too; the first of both answers is raised.
    with pytest.raises(ConfigError, match=r"(TOPIC|CLUSTER)_AUTHORIZATION_FAILED") as raised:
        _written(settings, topic)
    assert "with Kafka's ACLs" in raised.value.hint
    with pytest.raises(ConfigError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        TransactionalProducer(settings, topic)


def test_the_right_to_read_a_topic_is_enough_to_read_until_it_is_taken_away(kafka: SecuredBroker, topic: str) -> None:
    produce(kafka.settings, topic, [(b"x", None, [])])
    everyone = AdminClient({**client_conf(kafka.settings)})
    right = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.READ)
    settings = kafka.secured("SASL_PLAINTEXT", **BOB)
    readers: list[RangeReader] = [CompiledReader(settings), PlainReader(settings)]
    for granted in everyone.create_acls([AclBinding(*right, AclPermissionType.ALLOW)]).values():
        granted.result()
    for reader in readers:
        assert data_of(reader, topic, {0: 1}) == [b"x"]
    for taken in everyone.delete_acls([AclBindingFilter(*right, AclPermissionType.ALLOW)]).values():
        taken.result()
    for reader in readers:
        with pytest.raises(ConfigError, match="TOPIC_AUTHORIZATION_FAILED"):
            data_of(reader, topic, {0: 1})


def _written(settings: KafkaSettings, topic: str) -> None:
    with Producer(settings) as producer:
        producer.write(topic, numbered([1]), ONE)
        producer.flush()
