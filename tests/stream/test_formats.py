from __future__ import annotations

from typing import Any

import pytest

from gauss.config.spec import Pipeline
from gauss.stream.formats import TopicFormat, topic_format

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
