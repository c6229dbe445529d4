"""Topics, offsets and groups on a real broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import confluent_kafka
import psutil
import pytest

from gauss.clients.kafka.admin import Admin, Committed
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.model.errors import ConfigError, NotFound, ProtocolError, Rejected, Unavailable
from gauss.process.ports import free_port
from helpers.kafka import NOW, SecuredBroker, produce, topic_name
from helpers.kafka import settings as made_settings
from helpers.waiting import suspend, wait_until


def test_a_created_topic_has_its_partitions_leaders_and_config(admin: Admin) -> None:
    name = topic_name()
    made = admin.create(name, 3, replication=1, config={"cleanup.policy": "compact"})
    assert made == admin.describe(name)
    assert [(each.number, each.leader, each.replicas, each.in_sync) for each in made.partitions] == [
        (number, 1, (1,), (1,)) for number in range(3)
    ]
    assert len(admin.add_partitions(name, 5).partitions) == 5


def test_a_topic_that_is_not_there_is_not_created_by_asking(admin: Admin) -> None:
    name = topic_name()
    for _ in range(2):
        with pytest.raises(NotFound, match=f"topic {name}"):
            admin.describe(name)


def test_ensure_creates_once_and_changes_nothing_after(admin: Admin) -> None:
    name = topic_name()
    made = admin.ensure(name, 2)
    assert admin.ensure(name, 9) == made
    with pytest.raises(Rejected, match="already exists"):
        admin.create(name)


def test_a_topic_made_anew_has_another_id(admin: Admin, topic: str) -> None:
    before = admin.describe(topic).topic_id
    admin.delete(topic)
    assert admin.create(topic).topic_id != before
    with pytest.raises(NotFound):
        admin.delete(topic_name())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"config": {"no.such": "x"}}, "no.such"),
        ({"replication": 2}, "(?i)replication factor"),
        ({"partitions": 0}, "partitions"),
    ],
)
def test_a_topic_that_can_not_be_created_is_a_fault_of_the_config(
    admin: Admin, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        admin.create(topic_name(), **options)  # type: ignore[arg-type]


def test_offsets_are_found_by_end_and_by_time(admin: Admin, settings: KafkaSettings, topic: str) -> None:
    produce(settings, topic, [(b"x", None, [])] * 10)
    assert (admin.earliest(topic, [0]), admin.latest(topic, [0]), admin.stable(topic, [0])) == (
        {0: 0},
        {0: 10},
        {0: 10},
    )
    assert admin.at_time(topic, [0], NOW + 4) == {0: 4} and admin.at_time(topic, [0], NOW + 99) == {0: None}
    assert admin.latest(topic, []) == {}
    with pytest.raises(NotFound):
        admin.latest(topic_name(), [0])


def test_an_open_transaction_holds_the_stable_offset_back(admin: Admin, settings: KafkaSettings, topic: str) -> None:
    producer = confluent_kafka.Producer({**client_conf(settings), "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    assert (admin.latest(topic, [0]), admin.stable(topic, [0])) == ({0: 1}, {0: 0})
    producer.abort_transaction()
    wait_until(lambda: admin.stable(topic, [0]) == {0: 2}, what="the marker, which comes after the abort")


def test_offsets_of_a_group_are_set_and_read(admin: Admin, topic: str) -> None:
    group = f"of-{topic}"
    assert admin.committed(group, topic, [0]) == {}
    admin.commit(group, topic, {0: 7})
    assert admin.committed(group, topic, [0]) == {0: Committed(7, "")}


def test_offsets_of_a_group_with_members_are_refused(admin: Admin, settings: KafkaSettings, topic: str) -> None:
    group = f"of-{topic}"
    member = confluent_kafka.Consumer({**client_conf(settings), "group.id": group})
    member.subscribe([topic])
    deadline = time.monotonic() + 30
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.05)
    with pytest.raises(ProtocolError, match="UNKNOWN_MEMBER_ID"):
        admin.commit(group, topic, {0: 7})
    member.close()


def test_brokers_that_are_down_are_named_with_the_reason() -> None:
    port = free_port()
    nobody = Admin(made_settings(f"127.0.0.1:{port}", request_timeout="500ms"))
    with pytest.raises(Unavailable, match="Connection refused") as raised:
        nobody.describe("t")
    assert str(port) in raised.value.message and raised.value.retryable


def test_offsets_of_a_broker_that_does_not_answer_are_an_error(
    kafka: SecuredBroker, topic: str, settings: KafkaSettings
) -> None:
    """The library reports the offset -1001, which as an end would hide all records."""
    produce(settings, topic, [(b"a", None, [])])
    hurried = Admin(made_settings(*settings.brokers, request_timeout="1s"))
    assert hurried.stable(topic, [0]) == {0: 1}
    process = psutil.Process(kafka.broker.pid)
    suspend(process)
    asked: list[Callable[[], object]] = [
        lambda: hurried.stable(topic, [0]),
        lambda: hurried.earliest(topic, [0]),
        lambda: hurried.at_time(topic, [0], NOW),
        lambda: hurried.newest_time(topic, [0]),
    ]
    try:
        for ask in asked:
            with pytest.raises(Unavailable, match=topic):
                ask()
        assert isinstance(hurried.stable_ends([(topic, 0)])[topic, 0], Unavailable)
        assert isinstance(hurried.topic_ids([topic])[topic], Unavailable)
    finally:
        process.resume()

    def answers() -> bool:
        with contextlib.suppress(Unavailable):  # a second may be too short still
            return hurried.stable(topic, [0]) == {0: 1}
        return False

    wait_until(answers, 20, "an answer")


def test_a_wrong_password_is_said_before_the_timeout(kafka: SecuredBroker) -> None:
    stranger = Admin(kafka.secured("SASL_PLAINTEXT", username="alice", password="wrong"))
    began = time.monotonic()
    with pytest.raises(ConfigError, match="_AUTHENTICATION") as raised:
        stranger.describe("t")
    assert time.monotonic() - began < 10 and "wrong" not in raised.value.message
