"""The ends of partitions of a real cluster: topics that some may not read, that are made anew, and silent brokers."""

from __future__ import annotations

import threading
import time

import psutil
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.fleet.worker.ends import ANSWER_SECONDS, ClusterEnds
from gauss.fleet.worker.fences import OtherTopic
from gauss.model.errors import ConfigError, GaussError, NotFound, Unavailable
from helpers.kafka import BOB, SecuredBroker, granted, produce, topic_name
from helpers.waiting import suspend

pytestmark = pytest.mark.system


@pytest.fixture
def admin(kafka: SecuredBroker) -> Admin:
    return Admin(kafka.settings)


def test_a_topic_without_rights_or_that_is_gone_is_told_to_its_own_pipeline_alone(
    kafka: SecuredBroker, admin: Admin
) -> None:
    good, secret, gone = (admin.create(topic_name()) for _ in range(3))
    produce(kafka.settings, good.name, [(b"a", None, [])])
    with granted(kafka, good.name, gone.name):
        ends = ClusterEnds(kafka.secured("SASL_PLAINTEXT", **BOB))
        for _ in range(2):
            assert ends.ends(gone.name, gone.topic_id, [0]) == {0: 0}
            with pytest.raises(ConfigError, match=secret.name):
                ends.ends(secret.name, secret.topic_id, [0])
            assert ends.ends(good.name, good.topic_id, [0]) == {0: 1}
        admin.delete(gone.name)
        time.sleep(0.5)  # older than what it knows
        with pytest.raises(NotFound, match=gone.name):
            ends.ends(gone.name, gone.topic_id, [0])
        assert ends.ends(good.name, good.topic_id, [0]) == {0: 1}


def test_a_topic_that_is_made_anew_is_another_one(kafka: SecuredBroker, admin: Admin) -> None:
    old = admin.create(topic_name())
    produce(kafka.settings, old.name, [(b"a", None, [])] * 3)
    ends = ClusterEnds(kafka.settings)
    assert ends.ends(old.name, old.topic_id, [0]) == {0: 3}
    admin.delete(old.name)
    new = admin.create(old.name)
    produce(kafka.settings, new.name, [(b"b", None, [])])
    time.sleep(0.5)
    with pytest.raises(OtherTopic):
        ends.ends(old.name, old.topic_id, [0])
    assert ends.ends(new.name, new.topic_id, [0]) == {0: 1}


@pytest.mark.fault
def test_brokers_that_do_not_answer_are_waited_for_once_by_all(kafka: SecuredBroker, admin: Admin) -> None:
    topics = [admin.create(topic_name()) for _ in range(3)]
    ends, errors = ClusterEnds(kafka.settings), list[GaussError]()
    for each in topics:
        assert ends.ends(each.name, each.topic_id, [0]) == {0: 0}

    def ask(number: int) -> None:
        try:
            ends.ends(topics[number].name, topics[number].topic_id, [0])
        except GaussError as error:
            errors.append(error)

    time.sleep(0.5)  # older than what it knows
    process = psutil.Process(kafka.broker.pid)
    suspend(process)
    began = time.monotonic()
    try:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(topics))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        process.resume()
    assert [type(each) for each in errors] == [Unavailable] * 3
    assert time.monotonic() - began < 2 * ANSWER_SECONDS
