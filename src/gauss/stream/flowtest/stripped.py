"""The pipeline that a test runs: without sources and sinks, and with all storage in the case's data directory."""

from __future__ import annotations

from gauss import registry
from gauss.config.spec import EngineSection, Pipeline, TopicDef
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.contracts.storage import TopicKind

SERVER_KEYS = ("host", "port", "dsn", "database", "user", "password", "secure", "verify")
FLUSH = "20ms"
"""Flush interval of tables: a test does not wait for more rows."""


def stripped(pipeline: Pipeline) -> Pipeline:
    """The pipeline without ports and external servers; tables are in embedded servers."""
    transforms = [
        entry for entry in pipeline.processors if registry.spec(ProcessorSpec, entry.plugin).role is Role.TRANSFORM
    ]
    master = pipeline.spark.master if pipeline.spark.master.startswith("local") else "local[*]"
    return pipeline.model_copy(
        update={
            "topics": [_local(topic) for topic in pipeline.topics],
            "processors": transforms,
            "spark": pipeline.spark.model_copy(update={"master": master, "target_batch_ms": 50}),
            "engine": EngineSection(min_free_bytes=0),
        }
    )


def _local(topic: TopicDef) -> TopicDef:
    config = dict(topic.storage_config)
    if topic.kind is TopicKind.STORED_TABLE:
        for key in SERVER_KEYS:
            config.pop(key, None)
        config["flush_interval"] = FLUSH
    else:
        config.pop("data_dir", None)
    return topic.model_copy(update={"storage_config": config})
