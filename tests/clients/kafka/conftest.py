"""One real broker per test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from helpers.kafka import SecuredBroker, topic_name


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with listeners for all security protocols."""
    found = SecuredBroker(tmp_path_factory.mktemp("kafka"))
    found.broker.start()
    yield found
    found.broker.kill()


@pytest.fixture(scope="session")
def settings(kafka: SecuredBroker) -> KafkaSettings:
    return kafka.settings


@pytest.fixture(scope="session")
def admin(settings: KafkaSettings) -> Admin:
    return Admin(settings)


@pytest.fixture
def topic(admin: Admin) -> str:
    """A new topic with one partition."""
    return admin.create(topic_name()).name
