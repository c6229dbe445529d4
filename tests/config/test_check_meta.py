"""Faults of fields that records have beside their data: misspelt, or read from a topic that has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Judge

KAFKA = 'storage = "kafka"\nstorage_config = { brokers = ["127.0.0.1:9092"] }'
MEMORY = 'storage = "memory"'
PIPELINE = """
[[formats]]
name = "typed"
plugin = "json"
config = {{ fields = [{{ name = "k", type = "string" }}, {{ name = "n", type = "int64" }}{declared}] }}

[[topics]]
name = "given"
{storage}

[[topics]]
name = "other"
storage = "memory"

[[topics]]
name = "made"
storage = "memory"

[[topics]]
name = "rows"
storage = "memory"
storage_config = {{ mode = "table", format = "typed", key_field = "k" }}

[[processors]]
name = "read"
plugin = "{plugin}"
source = {{ topic = "given", read = "offset" }}
{target}
config = {{ input = {{ format = "{format}" }}, {config} }}
"""
USES = {
    "program": ("expression", """program = '{v: .["@key"], n}'"""),
    "add": ("expression", """add = { v = '.["@key"]' }"""),
    "where": ("filter", """where = '.["@key"] == "a"'"""),
    "routes": ("router", """routes = [{ when = '.["@key"] == "a"', topic = "other" }]"""),
    "query": ("sql", 'query = "SELECT `@key` AS v FROM input"'),
    "key": ("dedup", 'key = ["@key"], within = "1m"'),
    "group_by": ("window", 'type = "tumbling", size = "1s", group_by = ["@key"], aggregates = { v = "count()" }'),
    "aggregates": ("window", 'type = "tumbling", size = "1s", aggregates = { v = "last(.@key)" }'),
    "join_key": ("join", 'join_topic = "rows", join_read = "snapshot", join_key = "@key"'),
    "field": ("symbol-filter", 'field = "@key", symbols = ["a"]'),
}
"""By the key of the config that names the field."""


def pipeline(use: str, storage: str = KAFKA, format_: str = "typed", declared: str = "", name: str = "@key") -> str:
    plugin, config = USES[use]
    return PIPELINE.format(
        plugin=plugin,
        config=config.replace("@key", name),
        target="" if plugin == "router" else 'target = { topic = "made" }',
        storage=storage,
        format=format_,
        declared=declared,
    )


@pytest.mark.parametrize("format_", ["typed", "json"])
@pytest.mark.parametrize("use", USES)
def test_a_field_beside_the_data_of_a_kafka_topic_is_no_fault(judge: Judge, use: str, format_: str) -> None:
    assert judge(pipeline(use, format_=format_)).errors == []


@pytest.mark.parametrize("format_", ["typed", "json"])
@pytest.mark.parametrize("use", USES)
def test_a_misspelt_one_names_the_nearest(judge: Judge, use: str, format_: str) -> None:
    [fault] = judge(pipeline(use, format_=format_, name="@kye")).errors
    assert fault.message == 'processor "read": unknown field "@kye"'
    assert fault.hint.startswith('did you mean "@key"?')
    assert fault.path.endswith(f".config.{use}")


@pytest.mark.parametrize("format_", ["typed", "json"])
@pytest.mark.parametrize("use", USES)
def test_a_topic_that_is_not_in_kafka_has_none(judge: Judge, use: str, format_: str) -> None:
    [fault] = judge(pipeline(use, MEMORY, format_)).errors
    assert fault.message == 'processor "read": the records of topic "given" have no @key: only topics in Kafka have it'
    assert fault.path.endswith(f".config.{use}")


def test_a_single_header_of_a_topic_that_is_not_in_kafka_is_one_fault(judge: Judge) -> None:
    [fault] = judge(
        pipeline("program", MEMORY).replace('"@key"', '"@headers"].trace').replace("trace]", "trace")
    ).errors
    assert "have no @headers" in fault.message


@pytest.mark.parametrize(("storage", "name"), [(MEMORY, "@key"), (KAFKA, "@kye")])
@pytest.mark.parametrize("use", sorted(set(USES) - {"query"}))
def test_a_field_that_the_format_declares_is_the_records_own(judge: Judge, use: str, storage: str, name: str) -> None:
    declared = f', {{ name = "{name}", type = "string" }}'
    assert judge(pipeline(use, storage, declared=declared, name=name)).errors == []


def test_other_names_with_an_at_sign_are_fields_of_the_records(judge: Judge) -> None:
    assert judge(pipeline("program", format_="json", name="@timestamp")).errors == []
    [fault] = judge(pipeline("program", name="@timestamp")).errors
    assert 'the input format has no field "@timestamp"' in fault.message


def test_text_that_looks_like_one_is_no_field(judge: Judge) -> None:
    text = pipeline("where", MEMORY, "json").replace('.["@key"] == "a"', '.email == "me@key" or .k == "@kye"')
    assert judge(text).errors == []


def test_a_join_by_key_needs_two_topics_in_kafka(judge: Judge) -> None:
    text = pipeline("join_key").replace('"join"', '"window-join"').replace('"rows", join_read = "snapshot"', '"other"')
    [fault] = judge(text.replace('join_key = "@key"', 'join_key = "@key", window = "5s"')).errors
    assert 'the records of topic "other" have no @key' in fault.message
