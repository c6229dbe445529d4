"""Clients of the session's broker."""

from __future__ import annotations

import pytest

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.settings import KafkaSettings
from helpers.kafka import SecuredBroker, topic_name


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
