"""Kafka topics of the session's broker, as the engine opens them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from helpers.kafka import SecuredBroker
from helpers.kafka_topics import Topics


@pytest.fixture(scope="session")
def settings(kafka: SecuredBroker) -> KafkaSettings:
    return kafka.settings


@pytest.fixture(scope="session")
def admin(settings: KafkaSettings) -> Admin:
    return Admin(settings)


@pytest.fixture
def topics(kafka: SecuredBroker, tmp_path: Path) -> Iterator[Topics]:
    found = Topics(kafka, tmp_path)
    yield found
    found.close()
