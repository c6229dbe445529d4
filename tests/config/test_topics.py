"""Processors that name their topics in their own config: router and union."""

from __future__ import annotations

from pathlib import Path

from gauss.config.check import Checked, check
from gauss.stream.graph import build_graph
from gauss.stream.guarantee import guarantees

TOPICS = "".join(f'[[topics]]\nname = "{name}"\nstorage = "memory"\n' for name in ("a", "b", "c"))
SOURCE = 'source = { topic = "a", read = "offset" }\n'
TARGET = 'target = { topic = "c" }\n'
ROUTER = """
[[processors]]
name = "p"
plugin = "router"
config = { input = { format = "json" }, routes = [{ when = ".n > 1", topic = "b" }, { when = ".n > 0", topic = "b" }], otherwise = "c" }
"""  # noqa: E501
UNION = """
[[processors]]
name = "p"
plugin = "union"
config = { sources = [{ topic = "a", read = "offset" }, { topic = "b", read = "offset" }] }
"""


def checked(tmp_path: Path, text: str) -> Checked:
    file = tmp_path / "p.toml"
    file.write_text(TOPICS + text)
    return check(file)


def errors(tmp_path: Path, text: str) -> list[str]:
    return [fault.message for fault in checked(tmp_path, text).errors]


def test_a_router_has_the_targets_of_its_routes_each_once(tmp_path: Path) -> None:
    found = checked(tmp_path, ROUTER + SOURCE)
    assert found.pipeline is not None, found.faults
    node = build_graph(found.pipeline).processors["p"]
    assert node.targets == ("b", "c")
    assert len([fault for fault in found.warnings if "no processor writes" in fault.message]) == 1


def test_a_config_that_holds_tables_has_its_guarantees(tmp_path: Path) -> None:
    found = checked(tmp_path, ROUTER + SOURCE)
    assert found.pipeline is not None
    assert [guarantee.end for guarantee in guarantees(build_graph(found.pipeline))] == ["b", "c"]


def test_a_union_reads_all_its_sources(tmp_path: Path) -> None:
    found = checked(tmp_path, UNION + TARGET)
    assert found.pipeline is not None, found.faults
    node = build_graph(found.pipeline).processors["p"]
    assert [(reading.topic, reading.read) for reading in node.sources] == [("a", "offset"), ("b", "offset")]


def test_the_side_that_the_config_names_is_refused_outside_of_it(tmp_path: Path) -> None:
    [router] = errors(tmp_path, ROUTER + SOURCE + TARGET)
    assert 'has no "target": it names its targets in its config' in router
    [union] = errors(tmp_path, UNION + SOURCE + TARGET)
    assert 'has no "source": it names its sources in its config' in union
    assert '"source" is missing' in errors(tmp_path, ROUTER)[0]
    assert '"target" is missing' in errors(tmp_path, UNION)[0]


def test_an_unknown_topic_is_told_at_its_route(tmp_path: Path) -> None:
    [fault] = checked(tmp_path, ROUTER.replace('topic = "b"', 'topic = "bb"', 1) + SOURCE).errors
    assert 'unknown topic "bb"' in fault.message
    assert fault.path == "processors[0].config.routes[0].topic"


def test_a_union_source_that_can_not_be_read_by_offset_is_refused(tmp_path: Path) -> None:
    config = 'storage_config = { mode = "table", format = "json", key_field = "k" }'
    table = f'[[topics]]\nname = "t"\nstorage = "memory"\n{config}\n'
    [fault] = errors(tmp_path, table + UNION.replace('topic = "b"', 'topic = "t"') + TARGET)
    assert 'topic "t" (memory) can\'t be read by "offset"' in fault


def test_a_route_that_closes_a_ring_of_blocking_topics_is_told(tmp_path: Path) -> None:
    found = errors(tmp_path, ROUTER.replace('otherwise = "c"', 'otherwise = "a"') + SOURCE)
    assert any("closes a cycle" in message for message in found)
