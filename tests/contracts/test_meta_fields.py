"""Fields beside the data in the configs of processors, and in what their transforms read and write."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.contracts.meta_fields import META, named_in
from gauss.model.errors import ConfigError
from gauss.stream.driver.planning.refs import BesideRef, FormatRef, TableRef, TransformRef

BARE = FormatRef("json")
TYPED = FormatRef("json", {"fields": [{"name": "n", "type": "int64"}]})
OWN = FormatRef("json", {"fields": [{"name": "@key", "type": "int64"}]})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{k: .["@key"]}', ["@key"]),
        ("SELECT * FROM input", []),
        ("SELECT `@key`, `@offset` FROM input", ["@key", "@offset"]),
        ('.email == "me@key.org"', []),
        ('.["@keys"]', []),
        ('.["@headers"]', ["@headers"]),
        ('.["@headers"].trace', ["@headers.trace"]),
        ('.["@headers"]["trace-id"] == "a"', ["@headers.trace-id"]),
        ("SELECT `@headers`.trace FROM input", ["@headers.trace"]),
        ("SELECT `@headers`.`trace-id` FROM input", ["@headers.trace-id"]),
        ("@headers.trace", ["@headers.trace"]),
    ],
)
def test_only_fields_that_the_config_names_are_read(text: str, names: list[str]) -> None:
    assert named_in({"input": {"format": "json"}, "any": [{"of": text}]}) == names


def test_all_of_them_are_found_once() -> None:
    assert named_in({"fields": list(META), "program": '.["@key"]'}) == list(META)


def read_by(plugin: str, read: FormatRef, names: list[str], **config: Any) -> dict[str, tuple[str, bool]]:
    """The fields that a transform reads, with type and whether they are beside the data."""
    _, traits = TransformRef(plugin, {"input": {"format": "f"}, **config}, read, meta=names).build()
    return {field.name: (field.field_type.name, field.beside) for field in traits.fields}


@pytest.mark.parametrize("read", [BARE, TYPED])
@pytest.mark.parametrize(
    ("plugin", "config"),
    [
        ("expression", {"program": '{v: .["@key"]}'}),
        ("expression", {"add": {"v": '.["@key"]'}}),
        ("filter", {"where": '.["@key"] == "a"'}),
        ("router", {"routes": [{"when": '.["@key"] == "a"', "topic": "t"}]}),
        ("window", {"type": "tumbling", "size": "1s", "group_by": ["@key"], "aggregates": {"v": "count()"}}),
        ("symbol-filter", {"field": "@key", "symbols": ["a"]}),
        ("dedup", {"key": ["@key"], "within": "1m"}),
    ],
)
def test_a_transform_reads_the_key_with_and_without_a_schema(
    plugin: str, config: dict[str, Any], read: FormatRef
) -> None:
    kind, beside = read_by(plugin, read, ["@key"], **config)["@key"]
    assert beside
    assert kind in ("string", "json")


def test_a_single_header_is_text() -> None:
    for read in (BARE, TYPED):
        found = read_by("expression", read, ["@headers.trace"], program='{v: .["@headers"].trace}')
        assert found["$.@headers.trace"] == ("string", True)


def test_a_field_that_the_format_declares_is_read_from_the_data() -> None:
    assert read_by("expression", OWN, ["@key"], program='{v: .["@key"]}') == {"@key": ("int64", False)}


@pytest.mark.parametrize("read", [BARE, TYPED])
def test_a_key_that_is_used_as_a_number_is_refused(read: FormatRef) -> None:
    with pytest.raises(ConfigError, match=r"@key|string"):
        read_by("filter", read, ["@key"], where='.["@key"] > 5')


def test_what_is_beside_the_data_is_not_passed_on() -> None:
    import pyarrow as pa

    made, traits = TransformRef(
        "expression", {"input": {"format": "f"}, "add": {"v": '.["@key"]'}}, TYPED, meta=["@key"]
    ).build()
    assert [field.name for field in traits.fields] == ["n", "@key"]
    rows = pa.RecordBatch.from_pydict({"n": [1], "@key": ["a"], "_ts_ms": [0], "_data": [b""]})
    assert made.arrow(rows).schema.names == ["_ts_ms", "n", "v"]  # type: ignore[attr-defined]


def test_joined_records_do_not_get_the_key_by_which_they_were_joined() -> None:
    import pyarrow as pa

    table = TableRef("rows", FormatRef("json", {"fields": [{"name": name, "type": "string"} for name in "kv"]}), "k")
    config = {"input": {"format": "f"}, "join_topic": "rows", "join_read": "snapshot", "join_key": "@key"}
    made, _ = TransformRef("join", config, TYPED, table=table, meta=["@key"]).build()

    class Rows:
        def find(self, keys: pa.Array) -> tuple[pa.Array, pa.RecordBatch]:
            return pa.array([True] * len(keys)), pa.RecordBatch.from_pydict({"v": keys})

    made.look_up_in(Rows())  # type: ignore[attr-defined]
    rows = pa.RecordBatch.from_pydict({"n": [1], "@key": ["a"], "_ts_ms": [0], "_data": [b""]})
    assert made.arrow(rows).schema.names == ["_ts_ms", "n", "v"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("read", [BARE, TYPED])
def test_both_topics_of_a_join_may_have_keys(read: FormatRef) -> None:
    config = {
        "input": {"format": "f"},
        "join_topic": "others",
        "join_key": "@key",
        "join_fields": ["n"],
        "join_prefix": "other_",
        "window": "5s",
    }
    ref = TransformRef("window-join", config, read, beside=BesideRef("others", read, ["@key"]), meta=["@key"])
    _, traits = ref.build()
    assert traits.beside is not None
    assert {field.name: field.beside for field in traits.beside.fields} == {"@key": True, "n": False}
    assert {field.name: field.beside for field in traits.fields}["@key"]
