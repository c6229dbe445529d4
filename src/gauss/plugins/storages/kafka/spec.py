"""The `kafka` storage: a topic of a Kafka cluster, which others may read and write too."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from gauss.clients.kafka.settings import KafkaSettings
from gauss.contracts.plugin import Bytes, Millis, PluginConfig
from gauss.contracts.storage import Capacity, ReadMode, StorageSpec, WriteFull

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

WITHOUT_TRANSACTIONS = (
    'grant the user the right to write with transactional ids, and to read groups, that begin with "gauss.", or set'
    " transactions = false: records are then written at least once"
)
"""What to do about brokers that refuse transactions."""


class KafkaTopicConfig(KafkaSettings):
    """`storage_config` of a Kafka topic."""

    ABSENT: ClassVar[dict[str, str]] = {
        "retention": 'Kafka deletes by age itself: topic_config = {"retention.ms" = "604800000"}',
        "max_bytes": 'Kafka deletes by size itself: topic_config = {"retention.bytes" = "1073741824"}, per partition',
        "write_full": "a Kafka topic is never full: its brokers delete by age or size, see topic_config",
        "ttl": 'Kafka deletes by age itself: topic_config = {"retention.ms" = "604800000"}',
    }

    topic: str = ""
    """Name of the topic in Kafka. Default: the topic's name in the pipeline."""
    create: bool = True
    """Create the topic if it is missing. An existing topic is not changed."""
    partitions: Annotated[int, Field(gt=0, le=100_000)] = 4
    """With `create`: number of partitions. Records are in order within one; tasks read and write them in parallel."""
    replication: Annotated[int, Field(ge=-1, le=32_767)] = -1
    """With `create`: number of brokers that store each partition; -1: the brokers' default."""
    topic_config: dict[str, str] = Field(default_factory=dict)
    """With `create`: settings of the topic, such as `{"retention.ms" = "86400000"}`."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """Compression of the records that Gauss writes. Records of any compression are read."""
    format: str | None = None
    """The format of the records, for readers. The records are stored unchanged."""
    partition_by: Literal["key", "round_robin"] = "key"
    """How the partition of a written record is chosen. `key`: by its key, as Kafka's own producer does, so that records
    of one key stay in order; records without a key are spread. `round_robin`: all records are spread."""
    key_field: str | None = None
    """The field whose value becomes the key of a written record, such as `symbol` or `$.order.id`. Needs `format`.
    Default: records keep the key with which they were read, if any."""
    key: Literal["@key"] | None = None
    """With `read = "snapshot"`: what identifies a row. `@key`: the key of Kafka's record. Default: the value of
    `key_field`, if that is set."""
    snapshot_bytes: Annotated[Bytes, Field(ge=1 << 20)] = 256 << 20
    """With `read = "snapshot"`: maximum size of the newest records of all keys, which are held in memory. Reading them
    takes about twice as much. A larger snapshot fails."""
    partition_field: str | None = None
    """The field whose value, a whole number from 0, is the partition of a written record; instead of `partition_by`.
    Needs `format`. A record without a valid one becomes a dead letter."""
    transactions: bool = True
    """Write the results of tasks in transactions: exactly once. `false`, for brokers that refuse transactions: at least
    once, since an epoch that is repeated after a crash is written again."""
    transaction_timeout: Annotated[Millis, Field(ge=1_000)] = 60_000
    """Maximum time of a transaction in which a task writes; the brokers abort one that takes longer. They allow at most
    their `transaction.max.timeout.ms`, 15 minutes by default."""

    def name(self, topic: str) -> str:
        """The topic's name in Kafka, given its name in the pipeline."""
        return self.topic or topic

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.topic and (not _NAME.fullmatch(self.topic) or self.topic in (".", "..")):
            raise _fault("topic", f'expected letters, digits, ".", "_" and "-", at most 249, found "{self.topic}"')
        if self.replication == 0:
            raise _fault("replication", "expected a number of brokers, or -1 for the brokers' default, found 0")
        for key in ("partitions", "replication", "topic_config"):
            if key in self.model_fields_set and not self.create:
                raise _fault(key, f"{key} needs create = true: an existing topic is not changed")
        if "transaction_timeout" in self.model_fields_set and not self.transactions:
            raise _fault("transaction_timeout", "transaction_timeout needs transactions = true")
        for key, field in (("key_field", self.key_field), ("partition_field", self.partition_field)):
            if field is not None and not field.removeprefix("$").strip("."):
                raise _fault(key, 'expected the name of a field, such as "symbol" or "$.order.id"')
            if field is not None and self.format is None:
                raise _fault(key, f'"format" is missing: {key} needs one, such as format = "json"')
        if self.partition_field is not None and "partition_by" in self.model_fields_set:
            raise _fault("partition_field", "expected either partition_field or partition_by, found both")
        if self.key_field is not None and self.partition_by == "round_robin":
            raise _fault("key_field", 'key_field needs partition_by = "key"')
        return self


def _repeats(config: PluginConfig) -> str:
    if cast(KafkaTopicConfig, config).transactions:
        return ""
    return "after a crash its last records may be written again (transactions = false)"


def _fault(key: str, message: str) -> PydanticCustomError:
    return PydanticCustomError("kafka", "{message}", {"message": message, "key": key})


def _read_modes(config: PluginConfig) -> frozenset[ReadMode]:
    given = cast(KafkaTopicConfig, config)
    has_rows = given.key is not None or given.key_field is not None
    return frozenset({ReadMode.OFFSET, ReadMode.LATEST, ReadMode.QUERY} | ({ReadMode.SNAPSHOT} if has_rows else set()))


SPEC = StorageSpec(
    name="kafka",
    summary="A topic of a Kafka cluster, shared with other producers and consumers. Spark's tasks read and write it"
    " themselves.",
    config=KafkaTopicConfig,
    implementation="gauss.plugins.storages.kafka.shared_log:KafkaLog",
    task_implementation="gauss.plugins.storages.kafka.task_log:KafkaTaskLog",
    live_check="gauss.plugins.storages.kafka.live_check:check_topics",
    read_modes=_read_modes,
    repeats=_repeats,
    hosts=lambda config: [broker.rpartition(":")[0].strip("[]") for broker in cast("KafkaTopicConfig", config).brokers],
    durable=True,
    capacity=lambda _: Capacity(records=None, bytes=None, write_full=WriteFull.BLOCK),
)
