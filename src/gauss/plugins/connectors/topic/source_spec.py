"""The `topic` source: topics of a running pipeline."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.spec import SourceSpec
from gauss.contracts.plugin import PluginConfig


class TopicConfig(PluginConfig):
    """Names a run, by its data directory or by the address of its engine."""

    data_dir: str | None = None
    """The data directory of the run, relative to the config file. Default: `GAUSS_DATA_DIR`, or `.gauss` in the
    current folder."""
    endpoint: str | None = None
    """The engine of a run on another machine, as `grpc://host:port` (`run/flight.json` in its data directory; its
    `engine.allow` admits this machine). Formats are not known then: records are read and written as they are."""
    token: str | None = None
    """The token of that engine."""

    @model_validator(mode="after")
    def _one_run(self) -> Self:
        if (self.endpoint is None) != (self.token is None):
            missing = "token" if self.token is None else "endpoint"
            raise PydanticCustomError("topic", "give endpoint and token together", {"key": missing})
        if self.endpoint is not None and self.data_dir is not None:
            raise PydanticCustomError("topic", "give data_dir or endpoint, not both", {"key": "endpoint"})
        if self.endpoint is not None and not self.endpoint.startswith("grpc://"):
            raise PydanticCustomError("topic", "expected grpc://host:port", {"key": "endpoint"})
        return self


class TopicSourceConfig(TopicConfig):
    """Settings of the `topic` source.

    Streams: the topics that keep a log (not tables). Their columns are the fields of the topic's format, if it has one
    that declares them; else `data` (the bytes of a record) and `ts_ms`. A sync holds no records back: what retention
    removes before it is read is reported and counted.
    """

    checkpoint: CheckpointThresholds = CheckpointThresholds()
    """When a checkpoint is made."""


SPEC = SourceSpec(
    name="topic",
    own_cursor=True,
    summary="Reads topics of a running pipeline; records behind the last offset are the increment.",
    config=TopicSourceConfig,
    implementation="gauss.plugins.connectors.topic.source:TopicSource",
)
