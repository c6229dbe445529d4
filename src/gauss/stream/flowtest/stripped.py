"""The pipeline that a test runs: without sources and sinks, and with all storage in the case's data directory.

What refers to a prepared database stays: tables and sources of a clone of the case's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from gauss import registry
from gauss.clients.kafka.settings import KafkaSettings
from gauss.config.database_refs import database_of
from gauss.config.spec import EngineSection, Pipeline, ProcessorDef, TopicDef
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.contracts.storage import StorageSpec, TopicKind

SERVER_KEYS = ("host", "port", "dsn", "database", "user", "password", "secure", "verify")
BROKER_KEYS = {*KafkaSettings.model_fields, "create", "replication"}
EVERY = "every"
REPLICAS = {"min.insync.replicas"}
FLUSH = "20ms"
"""Flush interval of tables: a test does not wait for more rows."""


def stripped(pipeline: Pipeline, broker: Callable[[], str]) -> Pipeline:
    """The pipeline without ports and external servers; tables are in embedded servers, Kafka topics in new topics of an
    embedded broker, whose address `broker` returns."""
    master = pipeline.spark.master if pipeline.spark.master.startswith("local") else "local[*]"
    return pipeline.model_copy(
        update={
            "topics": [_local(topic, broker) for topic in pipeline.topics],
            "processors": [kept for entry in pipeline.processors if (kept := _kept(entry)) is not None],
            "spark": pipeline.spark.model_copy(update={"master": master, "target_batch_ms": 50}),
            "engine": EngineSection(min_free_bytes=0),
        }
    )


def _kept(entry: ProcessorDef) -> ProcessorDef | None:
    """A transform, or a source of a prepared database, which then reads once."""
    spec = registry.spec(ProcessorSpec, entry.plugin)
    if spec.role is Role.TRANSFORM:
        return entry
    if spec.role is Role.SOURCE and database_of(spec, entry.config) is not None:
        return entry.model_copy(update={"config": {key: value for key, value in entry.config.items() if key != EVERY}})
    return None


def _local(topic: TopicDef, broker: Callable[[], str]) -> TopicDef:
    config = dict(topic.storage_config)
    if topic.kind is TopicKind.STORED_TABLE:
        if database_of(registry.spec(StorageSpec, topic.storage), config) is None:
            config = {key: value for key, value in config.items() if key not in SERVER_KEYS}
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
