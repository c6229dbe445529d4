"""A pipeline as a test runs it: without its edges, and with every place of its own in the case's data directory."""

from __future__ import annotations

from gauss import registry
from gauss.config.spec import EngineSection, Pipeline, TopicDef
from gauss.contracts.processor import ProcessorSpec, Role
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import TableSpec

SERVER_KEYS = ("host", "port", "dsn", "database", "user", "password", "secure", "verify")
FLUSH = "20ms"
"""A test does not wait for more rows to come."""


def stripped(pipeline: Pipeline) -> Pipeline:
    """No port is bound and no server outside is written to: tables stand in the embedded ones."""
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
    if isinstance(registry.spec(StorageSpec, topic.storage), TableSpec):
        for key in SERVER_KEYS:
            config.pop(key, None)
        config["flush_interval"] = FLUSH
    else:
        config.pop("data_dir", None)
    return topic.model_copy(update={"storage_config": config})
