"""The pipeline that a test runs: without sources and sinks, and with all storage in the case's data directory."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from gauss import registry
from gauss.clients.kafka.settings import KafkaSettings
from gauss.config.spec import EngineSection, Pipeline, TopicDef
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.contracts.storage import StorageSpec, TopicKind

SERVER_KEYS = ("host", "port", "dsn", "database", "user", "password", "secure", "verify")
BROKER_KEYS = {*KafkaSettings.model_fields, "create", "replication"}
REPLICAS = {"min.insync.replicas"}
FLUSH = "20ms"
"""Flush interval of tables: a test does not wait for more rows."""


def stripped(pipeline: Pipeline, broker: Callable[[], str]) -> Pipeline:
    """The pipeline without ports and external servers; tables are in embedded servers, Kafka topics in new topics of an
    embedded broker, whose address `broker` returns."""
    transforms = [
        entry for entry in pipeline.processors if registry.spec(ProcessorSpec, entry.plugin).role is Role.TRANSFORM
    ]
    master = pipeline.spark.master if pipeline.spark.master.startswith("local") else "local[*]"
    return pipeline.model_copy(
        update={
            "topics": [_local(topic, broker) for topic in pipeline.topics],
            "processors": transforms,
            "spark": pipeline.spark.model_copy(update={"master": master, "target_batch_ms": 50}),
            "engine": EngineSection(min_free_bytes=0),
        }
    )


def _local(topic: TopicDef, broker: Callable[[], str]) -> TopicDef:
    config = dict(topic.storage_config)
    if topic.kind is TopicKind.STORED_TABLE:
        for key in SERVER_KEYS:
            config.pop(key, None)
        config["flush_interval"] = FLUSH
    elif registry.spec(StorageSpec, topic.storage).task_implementation:
        config = {key: value for key, value in config.items() if key not in BROKER_KEYS}
        settings = {key: value for key, value in config.get("topic_config", {}).items() if key not in REPLICAS}
        # Records of any time are kept: those of a case may be old.
        config["topic_config"] = {**settings, "retention.ms": "-1"}
        config |= {"brokers": [broker()], "topic": f"case-{secrets.token_hex(8)}"}
    else:
        config.pop("data_dir", None)
    return topic.model_copy(update={"storage_config": config})
