"""Errors of Kafka as ours."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from gauss.clients.errors import Unclear
from gauss.clients.kafka.errors import ConnectionErrors, OffsetOutOfRange, ProducerLost, TooLarge, from_code, sort_error
from gauss.model.errors import (
    ConfigError,
    DiskFull,
    Fenced,
    GaussError,
    NotFound,
    ProtocolError,
    Rejected,
    StorageError,
    Unavailable,
)

E = KafkaError


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (E._AUTHENTICATION, ConfigError, False),
        (E._SSL, ConfigError, False),
        (E.TOPIC_AUTHORIZATION_FAILED, ConfigError, False),
        (E.INVALID_REPLICATION_FACTOR, ConfigError, False),
        (E.UNKNOWN_TOPIC_OR_PART, NotFound, False),
        (E._ALL_BROKERS_DOWN, Unavailable, True),
        (E._TIMED_OUT, Unavailable, True),
        (E.NOT_LEADER_FOR_PARTITION, Unavailable, True),
        (E._MSG_TIMED_OUT, Unclear, True),
        (E._DESTROY, Unclear, True),
        (E.MSG_SIZE_TOO_LARGE, TooLarge, False),
        (E._FENCED, Fenced, False),
        (E.INVALID_PRODUCER_EPOCH, Fenced, False),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, ProducerLost, True),
        (E.OFFSET_OUT_OF_RANGE, OffsetOutOfRange, False),
        (E.KAFKA_STORAGE_ERROR, DiskFull, True),
        (E.UNKNOWN_MEMBER_ID, ProtocolError, False),
        (E.TOPIC_ALREADY_EXISTS, Rejected, False),
        (E.UNKNOWN, StorageError, False),
    ],
)
def test_a_code_becomes_an_error_that_says_whether_a_retry_helps(
    code: int, kind: type[GaussError], retryable: bool
) -> None:
    error = from_code(code, subject="topic t")
    assert type(error) is kind and error.retryable is retryable and error.hint
    assert error.message.startswith("Kafka: topic t: ") and KafkaError(code).name() in error.message


def test_a_fatal_error_needs_a_new_producer_unless_that_would_fail_too() -> None:
    assert type(from_code(E._TIMED_OUT, fatal=True)) is ProducerLost
    assert type(from_code(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True)) is ConfigError, "it would not help"


def test_an_exception_keeps_the_text_of_the_library() -> None:
    error = sort_error(KafkaException(KafkaError(E.INVALID_CONFIG, "Unknown topic config name: x")), "topic t")
    assert error.message == "Kafka: topic t: Unknown topic config name: x (INVALID_CONFIG)"
    assert isinstance(sort_error(KafkaException("odd")), StorageError)


def test_a_timeout_is_explained_by_the_last_error_of_the_connections() -> None:
    errors = ConnectionErrors()
    late = from_code(E._TIMED_OUT)
    assert errors.instead_of(late) is late and errors.refused() is None
    errors.note(E._TRANSPORT, "127.0.0.1:1: Connect failed: Connection refused")
    errors.note(E._ALL_BROKERS_DOWN, "1/1 brokers are down")
    assert "Connection refused" in errors.instead_of(late).message and errors.refused() is None
    errors.note(E._AUTHENTICATION, "SASL authentication error")
    assert isinstance(errors.refused(), ConfigError)
    errors.clear()
    assert errors.refused() is None
