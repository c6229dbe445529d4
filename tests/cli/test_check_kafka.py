"""`gauss check` asks the brokers about Kafka topics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.kafka.admin import Admin
from gauss.model.errors import NotFound
from helpers.kafka import PASSWORDS, SecuredBroker, granted, topic_name
from helpers.run import free_port

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]
Check = Callable[..., tuple[int, list[dict[str, Any]]]]
TOPIC = """\
[[topics]]
name = "{name}"
storage = "kafka"
storage_config = {{
    brokers = ["{broker}"],
    {more}
}}
"""
COPY = """\
[[processors]]
name = "copy"
plugin = "passthrough"
source = { topic = "given", read = "offset" }
target = { topic = "made" }
"""


@pytest.fixture
def check(gauss: Gauss, tmp_path: Path) -> Check:
    def run(broker: str, *args: str, processors: str = "", **topics: str) -> tuple[int, list[dict[str, Any]]]:
        text = "".join(TOPIC.format(name=name, broker=broker, more=more) for name, more in topics.items())
        (tmp_path / "gauss.toml").write_text(text + processors)
        done = gauss("check", "--json", *args)
        phases = json.loads(done.stdout)["phases"]
        return done.returncode, [phase for phase in phases if phase["name"] == "topics"]

    return run


def test_topics_that_exist_or_can_be_created_are_named_with_their_partitions(
    check: Check, kafka: SecuredBroker
) -> None:
    admin, (existing, missing) = Admin(kafka.settings), (topic_name(), topic_name())
    admin.create(existing, 3)
    given = f'topic = "{existing}"', f'topic = "{missing}", partitions = 7'
    code, [found, to_create] = check(kafka.broker.address, a=given[0], b=given[1])
    assert code == 0 and (found["mark"], to_create["mark"]) == ("ok", "ok")
    assert found["detail"] == f'topic "a": topic {existing} of Kafka has 3 partitions'
    assert "creates it with 7 partitions" in to_create["detail"]
    with pytest.raises(NotFound):
        admin.describe(missing)
    assert check(kafka.broker.address, "--offline", a=given[0]) == (0, [])


def test_partitions_that_an_existing_topic_does_not_have_are_mentioned(check: Check, kafka: SecuredBroker) -> None:
    Admin(kafka.settings).create(name := topic_name(), 2)
    code, [found] = check(kafka.broker.address, a=f'topic = "{name}", partitions = 8')
    assert code == 0 and "2 partitions, not 8: an existing topic is not changed" in found["detail"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('topic = "missing", create = false', "set create = true"),
        ("replication = 3", "REPLICATION"),
        ('topic_config = { "retention.ms" = "long" }', "INVALID_CONFIG"),
    ],
)
def test_topic_that_is_missing_and_can_not_be_created_is_a_fault_with_its_place(
    check: Check, kafka: SecuredBroker, more: str, words: str
) -> None:
    code, [found] = check(kafka.broker.address, a=more)
    assert code == 1 and found["mark"] == "fail"
    assert found["detail"].startswith('gauss.toml:6:5: topic "a": ')
    assert words in found["detail"] + found["hint"]


def test_brokers_that_do_not_answer_are_waited_for_once(check: Check) -> None:
    broker = f"127.0.0.1:{free_port()}"
    more = 'request_timeout = "1s"'
    code, found = check(broker, a=more, b=more, c=more)
    assert code == 1 and [phase["mark"] for phase in found] == ["fail"] * 3
    assert found[0]["detail"].startswith(f'gauss.toml:5:5: topic "a": the Kafka brokers {broker} do not answer')
    assert found[2]["detail"].startswith('gauss.toml:19:5: topic "c": ')


def test_wrong_password_is_a_fault_at_the_password(check: Check, kafka: SecuredBroker) -> None:
    login = 'security_protocol = "sasl_plaintext", username = "alice",\n    password = '
    broker = f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"
    code, [found] = check(broker, a=f'{login}"not-the-password"')
    assert code == 1 and found["detail"].startswith('gauss.toml:7:5: topic "a": ') and "username" in found["hint"]
    assert "not-the-password" not in json.dumps(found)
    code, [found] = check(broker, a=f'{login}"{PASSWORDS["alice"]}"')
    assert code == 0 and found["mark"] == "ok"


def test_transactions_are_tried_where_spark_writes(check: Check, kafka: SecuredBroker) -> None:
    names = topic_name(), topic_name()
    topics = {"given": f'topic = "{names[0]}"', "made": f'topic = "{names[1]}"'}
    code, found = check(kafka.broker.address, processors=COPY, **topics)
    assert code == 0 and [phase["mark"] for phase in found] == ["ok", "ok"]


def test_refused_transactions_are_a_fault_of_the_topic_that_spark_writes(check: Check, kafka: SecuredBroker) -> None:
    """Unless the topic does without transactions."""
    topics = {name: Admin(kafka.settings).create(topic_name()).name for name in ("given", "made")}
    login = f'security_protocol = "sasl_plaintext", username = "bob", password = "{PASSWORDS["bob"]}"'
    given = {name: f'topic = "{topic}", {login}' for name, topic in topics.items()}
    broker = f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"
    for ids, missing in ((False, "TRANSACTIONAL_ID_AUTHORIZATION"), (True, "GROUP_AUTHORIZATION")):
        with granted(kafka, *topics.values(), ids=ids):
            code, found = check(broker, processors=COPY, **given)
        assert code == 1 and [phase["mark"] for phase in found] == ["ok", "ok", "fail"]
        assert 'topic "made": no exactly once: the brokers refuse transactions' in found[-1]["detail"]
        assert missing in found[-1]["detail"] and "or set transactions = false" in found[-1]["hint"]
    given["made"] += ", transactions = false"
    with granted(kafka, *topics.values()):
        code, found = check(broker, processors=COPY, **given)
    assert code == 0 and [phase["mark"] for phase in found] == ["ok", "ok"]


def test_snapshot_of_a_topic_that_is_not_compacted_is_a_warning(check: Check, kafka: SecuredBroker) -> None:
    admin, names = Admin(kafka.settings), [topic_name() for _ in range(2)]
    for name, policy in zip(names, ("compact,delete", "delete"), strict=True):
        admin.create(name, config={"cleanup.policy": policy})
    snapshots = "".join(
        COPY.replace('"copy"', f'"copy-{topic}"').replace('"given", read = "offset"', f'"{topic}", read = "snapshot"')
        for topic in ("a", "b", "c")
    )
    topics = {topic: f'topic = "{name}", key = "@key"' for topic, name in zip(("a", "b"), names, strict=True)}
    topics |= {"c": f'topic = "{topic_name()}", key = "@key"', "made": f'topic = "{topic_name()}"'}
    code, found = check(kafka.broker.address, processors=snapshots, **topics)
    warnings = [phase["detail"] for phase in found if phase["mark"] == "warn"]
    assert code == 0 and len(warnings) == 2
    for topic, warning in zip(("b", "c"), warnings, strict=True):
        assert f'topic "{topic}": it is not compacted (cleanup.policy = delete)' in warning


def test_snapshot_needs_a_key_also_for_a_sink(check: Check, gauss: Gauss, kafka: SecuredBroker) -> None:
    output = 'config = { port = 1, output = { framing = "newline" } }'
    sink = COPY.replace("passthrough", "tcp-sink").replace('target = { topic = "made" }', output)
    every = sink.replace('read = "offset"', 'read = "offset", every = "1h"')
    for processors, more, message in (
        (COPY, "", "can't be read by"),
        (sink, "", "can't be read by"),
        (sink, 'key = "@key"', ""),
        (every, 'key = "@key"', '"every" does not apply to a sink'),
    ):
        snapshot = processors.replace('"offset"', '"snapshot"')
        code, _ = check(kafka.broker.address, "--offline", processors=snapshot, given=more, made="")
        assert code == bool(message)
        assert message in gauss("check", "--offline").stdout
