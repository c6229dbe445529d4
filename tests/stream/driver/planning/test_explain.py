from __future__ import annotations

from pathlib import Path

from gauss.config.check import check_or_raise
from gauss.config.files import with_absolute_files
from gauss.config.spec import Pipeline
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.planning.explain import Explained, explain, planned
from gauss.stream.graph import build_graph

EXAMPLES = Path(__file__).parents[4] / "examples"


def explained(example: str, name: str) -> Explained:
    pipeline, checked = check_or_raise(EXAMPLES / example)
    pipeline = with_absolute_files(pipeline, checked.base_dir)
    graph = build_graph(pipeline)
    return explain(pipeline, graph, find_chains(pipeline, graph), name)


def test_candles_are_partials_that_close_by_the_clock_and_go_to_an_inbox() -> None:
    found = explained("05-ohlc-to-clickhouse", "ohlc-builder")
    said = dict(found.plan)
    assert (found.query, found.runs) == ("ohlc-builder", "partials")
    assert said["decodes"] == "symbol (inferred from its first records), bid double from json, in the reader"
    assert said["aggregates"].startswith("in the reader")
    assert "even without records" in said["closes"]
    assert said["inbox"] == "ohlc.1m is an inbox on disk; the task _table.ohlc.1m inserts its records into clickhouse"
    reason = "a table has its own task, which inserts the records of its inbox"
    assert found.borders == [{"topic": "ohlc.1m", "other": "_table.ohlc.1m", "reason": reason}]
    assert found.guarantees == {"ohlc.1m": "may lose what was in memory when the engine died: quotes.raw"}


def test_every_example_is_explained_and_planned() -> None:
    found_examples = sorted(EXAMPLES.glob("*/pipeline.toml"))
    assert len(found_examples) > 10
    for example in found_examples:
        pipeline, checked = check_or_raise(example)
        pipeline = with_absolute_files(pipeline, checked.base_dir)
        graph = planned(pipeline, build_graph(pipeline))
        chains = find_chains(pipeline, graph)
        for name, node in graph.processors.items():
            found = explain(pipeline, graph, chains, name)
            assert found.runs == node.runs
            assert (found.query, found.members) == ("", []) or name in found.members
            assert all(isinstance(text, str) and text for _, text in found.lines())


def test_hosted_join_says_where_it_looks_rows_up() -> None:
    said = dict(explained("10-joins", "enrich-quotes").plan)
    assert said["looks up"] == "rows of instruments, at the version with which the batch was planned"
    assert said["shuffles"] == "none"


def test_a_codec_of_a_processors_own_is_shown_by_its_name() -> None:
    step = {"name": "d", "plugin": "decompress", "source": {"topic": "a", "read": "offset"}, "target": {"topic": "b"}}
    topics = [{"name": name, "storage": "memory"} for name in "ab"]
    pipeline = Pipeline.model_validate({"topics": topics, "processors": [{**step, "config": {"algo": "gzip"}}]})
    graph = planned(pipeline, build_graph(pipeline))
    lines = dict(explain(pipeline, graph, find_chains(pipeline, graph), "d").lines())
    assert lines["decodes"] == "data bytes from compressed, in the task"
    assert lines["writes"] == "b, as bytes"
    assert not any("gauss." in text for text in lines.values())
