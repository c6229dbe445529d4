"""Valid and invalid settings of Kafka topics."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import ValidationError

from gauss import registry
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig

BROKERS = {"brokers": ["127.0.0.1:9092"]}
SPEC = registry.spec(StorageSpec, "kafka")


def test_brokers_are_enough() -> None:
    config = cast(KafkaTopicConfig, SPEC.validate(BROKERS))
    assert (config.name("trades"), config.create, config.partitions) == ("trades", True, 4)
    assert SPEC.read_modes(config) == {ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY}
    assert SPEC.capacity(config) == Capacity(None, None, WriteFull.BLOCK)
    assert SPEC.durable


@pytest.mark.parametrize("given", [{"key": "@key"}, {"key_field": "symbol", "format": "json"}])
def test_topic_with_a_key_has_snapshots(given: dict[str, Any]) -> None:
    assert ReadMode.SNAPSHOT in SPEC.read_modes(SPEC.validate({**BROKERS, **given}))


def test_topic_of_another_name_is_used() -> None:
    config = cast(KafkaTopicConfig, SPEC.validate({**BROKERS, "topic": "market.trades", "create": False}))
    assert config.name("trades") == "market.trades"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"topic": "a b"}, 'found "a b"'),
        ({"topic": ".."}, "at most 249"),
        ({"partitions": 0}, "greater than 0"),
        ({"replication": 0}, "brokers' default"),
        ({"create": False, "partitions": 2}, "partitions needs create = true"),
        ({"create": False, "topic_config": {"retention.ms": "1"}}, "topic_config needs create = true"),
        ({"compression": "lzma"}, "zstd"),
        ({"key_field": "symbol"}, '"format" is missing'),
        ({"key_field": "$.", "format": "json"}, "the name of a field"),
        ({"key_field": "a", "format": "json", "partition_by": "round_robin"}, 'needs partition_by = "key"'),
        ({"partition_field": "shard"}, '"format" is missing: partition_field'),
        ({"partition_field": "", "format": "json"}, "the name of a field"),
        ({"partition_field": "a", "format": "json", "partition_by": "key"}, "either partition_field or partition_by"),
        ({"transaction_timeout": "10ms"}, "1000"),
        ({"retention": "1d"}, "not permitted"),
    ],
)
def test_fault_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SPEC.validate({**BROKERS, **config})
    assert message in str(caught.value)
