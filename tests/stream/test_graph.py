from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gauss.api.draw import draw_mermaid, draw_svg, draw_text
from gauss.api.draw.layout import columns
from gauss.config.check import check_or_raise
from gauss.contracts.processor import Where
from gauss.stream.graph import Graph, build_graph
from gauss.stream.guarantee import guarantees

MARKET = """
[[topics]]
name = "raw"
storage = "STORAGE"
storage_config = { write_full = "FULL" }
[[topics]]
name = "calm"
storage = "file"
[[topics]]
name = "copy"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "raw" }
config = { port = 9100, input = { framing = "newline" } }
[[processors]]
name = "calmer"
plugin = "filter"
source = { topic = "raw", read = "offset" }
target = { topic = "calm" }
config = { input = { format = "json" }, where = ".bid > 1" }
[[processors]]
name = "copier"
plugin = "passthrough"
source = { topic = "raw", read = "READ" }
target = { topic = "copy" }
[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "calm", read = "offset" }
config = { port = 9300, SINK output = { framing = "newline" } }
"""


def graph_of(
    folder: Path, *, storage: str = "memory", full: str = "block", read: str = "offset", sink: str = ""
) -> Graph:
    file = folder / "gauss.toml"
    text = MARKET.replace("STORAGE", storage).replace("FULL", full).replace("READ", read).replace("SINK", sink)
    file.write_text(text)
    return build_graph(check_or_raise(file)[0])


def promises(graph: Graph) -> dict[str, str]:
    return {promise.end: str(promise) for promise in guarantees(graph)}


def test_processors_run_where_their_topics_are(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    where = {name: node.where for name, node in graph.processors.items()}
    assert where == {"feed": Where.ENGINE, "calmer": Where.SPARK, "copier": Where.ENGINE, "out": Where.ENGINE}
    assert graph.needs_spark
    assert [node.name for node in graph.on(Where.SPARK)] == ["calmer"]


def test_pipeline_of_edges_and_passthrough_needs_no_spark(tmp_path: Path) -> None:
    text = MARKET.replace("STORAGE", "memory").replace("FULL", "block").replace("READ", "offset").replace("SINK", "")
    file = tmp_path / "gauss.toml"
    file.write_text(re.sub(r'\[\[processors\]\]\nname = "calmer".*?(?=\[\[)', "", text, flags=re.DOTALL))
    assert not build_graph(check_or_raise(file)[0]).needs_spark


def test_readers_and_writers_of_a_topic(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, read="latest")
    assert [node.name for node in graph.writers("raw")] == ["feed"]
    assert [(node.name, read) for node, read in graph.readers("raw")] == [("calmer", "offset"), ("copier", "latest")]
    assert [node.name for node in graph.upstream("calm")] == ["calm", "raw"]


def test_path_over_files_is_exactly_once(tmp_path: Path) -> None:
    assert promises(graph_of(tmp_path, storage="file")) == {"out": "exactly once", "copy": "exactly once"}


def test_path_over_memory_names_the_topic_that_may_lose(tmp_path: Path) -> None:
    assert promises(graph_of(tmp_path))["out"] == "may lose what was in memory when the engine died: raw"


def test_sink_that_resumes_is_at_least_once(tmp_path: Path) -> None:
    promised = promises(graph_of(tmp_path, storage="file", sink='start = "resume",'))
    assert promised["out"] == "at least once: after a reconnect the last records may come again"


@pytest.mark.parametrize(
    ("full", "said"), [("drop", "refuses new records when full"), ("overwrite", "overwrites the oldest records")]
)
def test_topic_that_gives_way_when_full_is_named(tmp_path: Path, full: str, said: str) -> None:
    assert said in promises(graph_of(tmp_path, storage="file", full=full))["out"]


def test_reader_of_the_latest_is_named_on_its_own_path_only(tmp_path: Path) -> None:
    promised = promises(graph_of(tmp_path, storage="file", read="latest"))
    assert promised == {"out": "exactly once", "copy": "passes only the newest record to: copier (of raw)"}


def test_text_shows_storage_read_modes_traits_and_guarantees(tmp_path: Path) -> None:
    drawn = draw_text(graph_of(tmp_path, read="latest"))
    assert "(raw)  memory · 65,536 records or 256.0 MiB · block" in drawn
    assert "─latest─▶ [copier]  passthrough · passive, stateless · in the engine" in drawn
    assert "[calmer]  filter · active, stateless · on Spark" in drawn
    assert "listens on 127.0.0.1:9300" in drawn
    assert "out   may lose what was in memory" in drawn
    assert "active: may change the number of records; passive: one output per input" in drawn


def test_text_ends_on_a_cycle(tmp_path: Path) -> None:
    file = tmp_path / "gauss.toml"
    file.write_text("""
[[topics]]
name = "a"
storage = "memory"
storage_config = { write_full = "drop" }
[[processors]]
name = "again"
plugin = "passthrough"
source = { topic = "a", read = "offset" }
target = { topic = "a" }
""")
    graph = build_graph(check_or_raise(file)[0])
    assert "(a)  see above" in draw_text(graph)
    assert ElementTree.fromstring(draw_svg(graph)).tag.endswith("svg")


def test_mermaid_has_every_node_and_arrow(tmp_path: Path) -> None:
    drawn = draw_mermaid(graph_of(tmp_path, read="latest"))
    assert drawn.startswith("flowchart LR\n")
    assert "<b>raw</b>" in drawn
    assert drawn.count("-->") == 6
    assert "t0 -- latest --> p2" in drawn
    assert "<b>calmer</b>" in next(line for line in drawn.splitlines() if line.endswith(":::spark"))


def test_svg_is_well_formed_and_shows_every_name(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    root = ElementTree.fromstring(draw_svg(graph))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {*graph.topics, *graph.processors, "offset"} <= texts
    assert "out: may lose what was in memory when the engine died: raw" in texts


def test_columns_stand_right_of_what_flows_into_them(tmp_path: Path) -> None:
    placed = [{node.name for node in column} for column in columns(graph_of(tmp_path))]
    assert placed == [{"feed"}, {"raw"}, {"calmer", "copier"}, {"calm", "copy"}, {"out"}]


def test_graph_as_json_leaves_configs_out(tmp_path: Path) -> None:
    shown = json.loads(json.dumps(graph_of(tmp_path).to_dict()))
    assert shown["needs_spark"] is True
    assert shown["processors"][0]["address"]["port"] == 9100
    assert all("config" not in processor for processor in shown["processors"])


@pytest.mark.parametrize(
    ("config", "active"),
    [('add = { mid = ".bid + 1" }', False), ('program = "select(.bid > 1) | {bid}"', True)],
)
def test_an_expression_that_only_adds_fields_is_passive(tmp_path: Path, config: str, active: bool) -> None:
    file = tmp_path / "gauss.toml"
    text = MARKET.replace("STORAGE", "memory").replace("FULL", "block").replace("READ", "offset").replace("SINK", "")
    text = text.replace('plugin = "filter"', 'plugin = "expression"').replace('where = ".bid > 1"', config)
    file.write_text(text)
    assert build_graph(check_or_raise(file)[0]).processors["calmer"].active is active
