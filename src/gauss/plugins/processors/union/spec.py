"""union: the records of several topics in one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import ProcessorSpec, Role, Where


class UnionSource(PluginConfig):
    """A topic to read."""

    topic: str
    """Its name."""
    read: Literal["offset"] = "offset"
    """Always `offset`: every record is read."""


class UnionConfig(PluginConfig):
    """Merges several topics without decoding. The records of each topic stay in order, and each gets its share of a
    full batch."""

    sources: Annotated[list[UnionSource], Field(min_length=2)]
    """The topics to read, e.g. `[{ topic = "a", read = "offset" }, { topic = "b", read = "offset" }]`."""

    @field_validator("sources")
    @classmethod
    def _each_once(cls, sources: list[UnionSource]) -> list[UnionSource]:
        names = [source.topic for source in sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'expected each topic once, found "{name}" twice')
        return sources


def topics(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """Every source."""
    assert isinstance(config, UnionConfig)
    return [(("sources", place, "topic"), source.topic) for place, source in enumerate(config.sources)]


EXAMPLE = """
[[processors]]
name = "union"
plugin = "union"
target = { topic = "quotes" }
config = { sources = [{ topic = "quotes.eu", read = "offset" }, { topic = "quotes.us", read = "offset" }] }
"""

SPEC = ProcessorSpec(
    name="union",
    summary="merges several topics into one",
    config=UnionConfig,
    implementation="gauss.plugins.processors.union.transform:Union",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    active=True,
    hosted=True,
    keeps_order=False,
    own_side="source",
    topics=topics,
    example=EXAMPLE,
)
