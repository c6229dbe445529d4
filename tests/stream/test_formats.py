from __future__ import annotations

from typing import Any

import pytest

from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError
from gauss.stream.formats import TopicFormat, sink_formats, topic_format

FEED = {"name": "feed", "plugin": "tcp-source", "target": {"topic": "t"}, "config": {"input": {"format": "quotes"}}}
SIFT = {
    "name": "sift",
    "plugin": "filter",
    "source": {"topic": "t", "read": "offset"},
    "target": {"topic": "out"},
    "config": {"input": {"format": "quotes"}, "output": {"format": "candles"}},
}


def said(topic: str, *processors: dict[str, Any], storage_config: dict[str, Any] | None = None) -> TopicFormat | None:
    topics = [
        {"name": "t", "storage": "memory", "storage_config": storage_config or {}},
        {"name": "out", "storage": "memory"},
    ]
    return topic_format(Pipeline.model_validate({"topics": topics, "processors": list(processors)}), topic)


def test_own_format_of_a_topic_comes_first() -> None:
    assert said("t", FEED, storage_config={"format": "own"}) == TopicFormat("own", "the topic's own")


@pytest.mark.parametrize(
    ("topic", "processors", "name"),
    [("t", [FEED], "quotes"), ("t", [SIFT], "quotes"), ("t", [FEED, SIFT], "quotes"), ("out", [FEED, SIFT], "candles")],
)
def test_processors_beside_a_topic_say_what_it_holds(topic: str, processors: list[dict[str, Any]], name: str) -> None:
    found = said(topic, *processors)
    assert found is not None and found.name == name and processors[0 if topic == "t" else 1]["name"] in found.why


def test_processors_that_differ_say_nothing() -> None:
    other = {**SIFT, "name": "other", "config": {"input": {"format": "trades"}}}
    assert said("t", FEED, other) is None


def test_nothing_is_said_of_a_topic_without_formats_or_an_unknown_one() -> None:
    assert said("t", {**FEED, "config": {}}) is None
    assert said("nowhere", FEED) is None


OUT = {"framing": "newline", "format": "json"}


def converts(
    *processors: dict[str, Any],
    plugin: str = "tcp-sink",
    config: dict[str, Any] | None = None,
    storage_config: dict[str, Any] | None = None,
    formats: list[dict[str, Any]] | None = None,
) -> tuple[str, str] | None:
    given = {"output": OUT if plugin == "tcp-sink" else {"format": "json"}, **(config or {})}
    sink = {"name": "sink", "plugin": plugin, "source": {"topic": "t", "read": "offset"}, "config": given}
    topics = [{"name": "t", "storage": "memory", "storage_config": storage_config or {}}]
    topics.append({"name": "out", "storage": "memory"})
    made = {"formats": formats or [], "topics": topics, "processors": [*processors, sink]}
    return sink_formats(Pipeline.model_validate(made), "sink")


@pytest.mark.parametrize("plugin", ["tcp-sink", "ws-sink"])
def test_a_sink_converts_from_the_format_that_its_topic_has(plugin: str) -> None:
    assert converts(FEED, plugin=plugin) == ("quotes", "json")
    assert converts(FEED, plugin=plugin, storage_config={"format": "own"}) == ("own", "json")
    assert converts(FEED, plugin=plugin, config={"input": {"format": "mine"}}) == ("mine", "json")


def test_a_sink_sends_records_as_they_are_where_formats_are_equal_or_nobody_names_one() -> None:
    same = [{"name": "quotes", "plugin": "json"}]
    assert converts() is None
    assert converts(FEED, formats=same) is None
    assert converts(FEED, config={"output": {"framing": "newline"}}) is None
    assert converts(FEED, formats=[{"name": "quotes", "plugin": "json", "config": {"fields": []}}]) is not None


def test_a_sink_that_finds_several_formats_beside_its_topic_must_name_one() -> None:
    other = {**SIFT, "name": "other", "config": {"input": {"format": "other"}}}
    with pytest.raises(ConfigError, match="is ambiguous: other processors of the topic use other, quotes"):
        converts(FEED, other)
    assert converts(FEED, other, config={"input": {"format": "other"}}) == ("other", "json")
    assert converts(FEED, other, config={"output": {**OUT, "format": "quotes"}}) is None


def test_a_passthrough_tells_its_target_what_its_source_holds() -> None:
    copy = {
        "name": "copy",
        "plugin": "passthrough",
        "source": {"topic": "t", "read": "offset"},
        "target": {"topic": "out"},
    }
    back = {**copy, "name": "back", "source": {"topic": "out", "read": "offset"}, "target": {"topic": "t"}}
    found = said("out", FEED, copy)
    assert found is not None and found.name == "quotes"
    found = said("out", copy, storage_config={"mode": "table", "format": "own", "key_field": "k"})
    assert found is not None and found.name == "own"
    assert said("out", copy, back) is None
