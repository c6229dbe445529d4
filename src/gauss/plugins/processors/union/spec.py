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
    """Every record is read: a union of newest records would be none."""


class UnionConfig(PluginConfig):
    """Several sources; bytes are not looked at. The records of each stay in their order, and a full batch leaves each
    source its share."""

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
    summary="the records of several topics in one",
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
