from __future__ import annotations

from typing import Any

from gauss.config.spec import Pipeline
from gauss.stream.driver.planning.chains import Link, find_chains
from gauss.stream.graph import build_graph

FIELDS = [{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}]
QUOTE = {"input": {"format": "quote"}}
FILTER = ("filter", {**QUOTE, "where": ".n > 0"})
WAITS = ("expression", {"input": {"format": "json"}, "program": "{n}"})
"""A step whose input type is known only from its first records."""


def borders(*steps: tuple[str, dict[str, Any]], topic: dict[str, Any] | None = None, **second: Any) -> list[str]:
    """The reasons why topics between these steps end a chain; `topic` changes the first topic, `second` the second
    step."""
    topics: list[dict[str, Any]] = [{"name": f"t{place}", "storage": "memory"} for place in range(len(steps) + 1)]
    topics[1] |= topic or {}
    processors = [
        {
            "name": f"p{place}",
            "plugin": plugin,
            "source": {"topic": f"t{place}", "read": "offset"},
            "target": {"topic": f"t{place + 1}"},
            "config": config,
        }
        for place, (plugin, config) in enumerate(steps)
    ]
    processors[1] |= second
    formats = [{"name": "quote", "plugin": "json", "config": {"fields": FIELDS}}]
    pipeline = Pipeline.model_validate({"formats": formats, "topics": topics, "processors": processors})
    return list(find_chains(pipeline, build_graph(pipeline)).borders.values())


def test_hosted_steps_through_plain_topics_go_together() -> None:
    assert borders(FILTER, FILTER, FILTER) == []
    assert borders(FILTER, FILTER, topic={"storage": "file"}) == []
    assert borders(WAITS, FILTER) == []  # its first records are read before the chain starts


def test_every_border_has_its_reason() -> None:
    dropping = {"storage_config": {"write_full": "drop"}}
    assert borders(FILTER, FILTER, topic=dropping) == ['t1 has write_full = "drop"']
    lines = {"storage": "file", "storage_config": {"framing": "newline"}}
    assert borders(FILTER, FILTER, topic=lines) == ["t1 keeps records in a framing that can't hold all of them"]
    assert borders(FILTER, FILTER, source={"topic": "t1", "read": "latest"}) == ["p1 reads t1 by latest"]
    assert borders(FILTER, FILTER, on_restart="fail") == ['p1 has on_restart = "fail"']
    assert borders(FILTER, ("passthrough", {})) == ["p1 runs in the engine"]
    columns = "p1 runs as a streaming query; only hosted processors form chains"
    assert borders(FILTER, ("dedup", {**QUOTE, "key": "n", "within": "1m"})) == [columns]
    assert borders(FILTER, WAITS) == ["p1 must see its first records to know the types of n"]


def test_a_step_that_cannot_be_planned_is_a_border_and_no_end_of_all() -> None:
    misfit = ("format-convert", {"input": {"format": "json"}, "output": {"format": "msgpack"}})
    [border] = borders(FILTER, misfit)
    assert border == 'p1 can\'t be planned: neither "json" nor "msgpack" says which fields there are'


def test_two_writers_of_a_topic_are_a_border_for_both() -> None:
    beside = {"topic": "t3"}, {"topic": "t0", "read": "offset"}
    found = borders(FILTER, FILTER, FILTER, FILTER, target=beside[0], source=beside[1])
    assert found == ["p1 and p2 both write t3"] * 2


def test_members_follow_the_one_that_feeds_them_and_leave_with_all_behind_them() -> None:
    pipeline = Pipeline.model_validate(
        {
            "formats": [{"name": "quote", "plugin": "json", "config": {"fields": FIELDS}}],
            "topics": [{"name": name, "storage": "memory"} for name in ("a", "b", "c", "d", "e")],
            "processors": [
                {
                    "name": f"{source}{target}",
                    "plugin": "filter",
                    "source": {"topic": source, "read": "offset"},
                    "target": {"topic": target},
                    "config": FILTER[1],
                }
                for source, target in ("cd", "ab", "bc", "be")
            ],
        }
    )
    chains = find_chains(pipeline, build_graph(pipeline))
    assert chains.members("ab") == ["ab", "bc", "cd", "be"]
    assert chains.inner()["cd"] == Link("bc", "c", "cd")
    left = chains.without({"bc"})
    assert (left.members("ab"), left.members("bc"), left.head("cd")) == (["ab", "be"], ["bc", "cd"], "bc")
