"""router: each record goes to the topic of the first route that it fits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gauss.contracts.io import RecordIO
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.processor import LintContext, ProcessorSpec, Role, Where
from gauss.model.errors import ConfigError
from gauss.plugins.processors.lints import needs_format, unknown_fields


class Route(PluginConfig):
    """A condition, and the topic for matching records."""

    when: str
    """A condition such as `.symbol == "BTC"`. A missing field is null, and null does not match."""
    topic: str
    """The topic to write."""


class RouterConfig(PluginConfig):
    """Routes records, unchanged, to several topics. An epoch is published to all of them or to none."""

    input: RecordIO
    """The format of the input records."""
    routes: Annotated[list[Route], Field(min_length=1)]
    """Routes, in order: a record goes to the topic of the first whose `when` is true."""
    otherwise: str | None = None
    """The topic for records that match no route. Default: they are dropped."""


def topics(config: PluginConfig) -> list[tuple[tuple[str | int, ...], str]]:
    """Every target."""
    assert isinstance(config, RouterConfig)
    found: list[tuple[tuple[str | int, ...], str]] = [
        (("routes", place, "topic"), route.topic) for place, route in enumerate(config.routes)
    ]
    return [*found, (("otherwise",), config.otherwise)] if config.otherwise else found


def lint(config: PluginConfig, context: LintContext) -> list[str]:
    """Faults of the conditions themselves, and fields that the input format does not have."""
    # The grammar's parser is loaded only for a pipeline that has a router.
    from gauss.scan.program.parse import parse

    assert isinstance(config, RouterConfig)
    faults = needs_format("router", config.input)
    for route in config.routes:
        try:
            faults += unknown_fields("routes", parse(route.when).paths(), context)
        except ConfigError as error:
            faults.append(f"routes: {error.message}")
    return faults


EXAMPLE = """
[[processors]]
name = "router"
plugin = "router"
source = { topic = "quotes", read = "offset" }
config = {
    input = { format = "json" },
    routes = [
        { when = '.symbol == "BTC"', topic = "btc" },
        { when = ".bid > 1000", topic = "high" },
    ],
    otherwise = "rest",
}
"""

SPEC = ProcessorSpec(
    name="router",
    summary="sends each record to the topic of the first route that matches",
    config=RouterConfig,
    implementation="gauss.plugins.processors.router.transform:Router",
    role=Role.TRANSFORM,
    where=Where.SPARK,
    reads=frozenset({"offset", "latest", "query"}),
    active=True,
    hosted=True,
    passes_bytes=True,
    own_side="target",
    topics=topics,
    lint=lint,
    example=EXAMPLE,
)
