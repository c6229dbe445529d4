"""The `topic` destination: topics of a running pipeline."""

from __future__ import annotations

from pydantic import Field

from gauss.contracts.connector.spec import DestinationSpec
from gauss.plugins.connectors.topic.source_spec import TopicConfig


class TopicDestinationConfig(TopicConfig):
    """Settings of the `topic` destination.

    A stream is written to the topic with its name, or else with the last part of its name. Rows are encoded in the
    topic's format; a topic without one takes rows with one column `data`, text or bytes. The time of a record is its
    arrival.
    """

    tables: dict[str, str] = Field(default={})
    """The topic of a stream, by the stream's name."""


SPEC = DestinationSpec(
    name="topic",
    summary="Appends to topics of a running pipeline; incremental streams exactly once.",
    config=TopicDestinationConfig,
    implementation="gauss.plugins.connectors.topic.destination:TopicDestination",
    repeats=lambda _: "a full refresh that fails and is retried appends its rows again; incremental streams do not",
)
