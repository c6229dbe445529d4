"""The keys that name a cluster, as settings of librdkafka."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gauss.clients.kafka.settings import KafkaSettings, client_conf


def made(**given: Any) -> KafkaSettings:
    return KafkaSettings.model_validate({"brokers": ["a:1", "[::1]:9092"], **given})


def test_brokers_alone_connect_without_login_and_encryption() -> None:
    conf = client_conf(made())
    assert conf["bootstrap.servers"] == "a:1,[::1]:9092" and conf["security.protocol"] == "plaintext"
    assert not [key for key in conf if key.startswith(("ssl", "sasl"))]


def test_login_and_tls_become_settings_of_the_library() -> None:
    conf = client_conf(
        made(
            security_protocol="sasl_ssl",
            sasl_mechanism="SCRAM-SHA-512",
            username="alice",
            password="hunter2",
            ca_file="ca.pem",
            certificate_pem="CERT",
            private_key_pem="KEY",
            private_key_password="hunter3",
            connect_timeout="5s",
        )
    )
    assert conf.items() >= {
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", "hunter2"),
        ("ssl.ca.location", "ca.pem"),
        ("ssl.certificate.pem", "CERT"),
        ("ssl.key.pem", "KEY"),
        ("ssl.key.password", "hunter3"),
        ("socket.connection.setup.timeout.ms", "5000"),
    }


def test_secrets_are_not_part_of_the_repr() -> None:
    keys = {"certificate_pem": "CERT", "private_key_pem": "hunter4", "private_key_password": "hunter3"}
    shown = repr(made(security_protocol="sasl_ssl", username="alice", password="hunter2", **keys))
    assert "hunter" not in shown and "alice" in shown


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({"security_protocol": "sasl_ssl"}, "username", "needs username and password"),
        ({"security_protocol": "sasl_ssl", "username": "a"}, "password", "needs username and password"),
        ({"username": "a", "password": "b"}, "username", "needs security_protocol"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism", "needs security_protocol"),
        ({"ca_file": "ca.pem"}, "ca_file", "needs security_protocol"),
        ({"security_protocol": "ssl", "ca_file": "a", "ca_pem": "b"}, "ca_file", "not both"),
        ({"security_protocol": "ssl", "certificate_file": "a"}, "certificate_file", "need each other"),
        ({"security_protocol": "ssl", "private_key_file": "a"}, "private_key_file", "need each other"),
    ],
)
def test_keys_that_do_not_fit_together_are_a_fault_of_the_key(given: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ValidationError) as raised:
        made(**given)
    (error,) = raised.value.errors()
    assert error["ctx"]["key"] == key and words in error["msg"]


@pytest.mark.parametrize("broker", ["localhost", "a:0", "a:70000", "kafka://a:1", "a:1,b:2", "user@a:1", ""])
def test_an_address_that_is_not_host_and_port_is_refused(broker: str) -> None:
    with pytest.raises(ValidationError, match="host:port"):
        KafkaSettings.model_validate({"brokers": [broker]})


def test_no_broker_is_refused() -> None:
    with pytest.raises(ValidationError, match="brokers"):
        KafkaSettings.model_validate({"brokers": []})


def test_encryption_is_asked_for_unless_the_config_says_how() -> None:
    assert "sasl_ssl" in made().encryption_hint() and made(security_protocol="plaintext").encryption_hint() == ""
