"""The config of pg-source: its servers, its guarantees, and the settings of its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gauss.config.listeners import addresses
from gauss.config.spec import Pipeline
from gauss.model.paths import DataDir
from gauss.plugins.processors.pg_source.spec import SPEC
from gauss.stream.graph import build_graph
from gauss.stream.guarantee import guarantees
from gauss.stream.live_formats import asks_server, schema_dir, with_live_formats


def pipeline(**config: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "formats": [{"name": "rows", "plugin": "pg-binary"}],
            "topics": [{"name": "t", "storage": "file"}],
            "processors": [{"name": "pg", "plugin": "pg-source", "target": {"topic": "t"}, "config": config}],
        }
    )


def promise(**config: Any) -> str:
    [found] = guarantees(build_graph(pipeline(**config)))
    return str(found)


def test_each_kind_of_pass_says_what_it_promises() -> None:
    assert promise(table="q", cursor_field="id") == "exactly once"
    assert promise(table="q") == ("at least once: pg: an interrupted pass starts over (set cursor_field to resume it)")
    assert "every pass reads all rows again" in promise(table="q", every="1s")
    assert "committed after a larger id has been read" in promise(table="q", cursor_field="id", every="1s")


def test_the_embedded_server_is_started_unless_another_is_named() -> None:
    assert build_graph(pipeline(table="q")).servers == ["postgres"]
    elsewhere = pipeline(table="q", dsn="postgresql://me:hushhush@db.example:5433/x")
    assert build_graph(elsewhere).servers == []
    assert [(each.host, each.port) for each in addresses(elsewhere) if not each.listens] == [("db.example", 5433)]
    assert "hushhush" not in str(build_graph(elsewhere).to_dict())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "either a table or a query"),
        ({"table": "q", "query": "SELECT 1"}, "either a table or a query"),
        ({"query": "SELECT 1", "schema": "s"}, "schema goes with table"),
        ({"table": "q", "dsn": "x", "host": "y"}, "dsn or host"),
        ({"table": "q", "cursor": "id"}, "cursor"),
    ],
)
def test_a_config_that_means_nothing_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SPEC.validate(config)


def test_a_format_without_columns_is_told_those_of_the_source_that_names_it(tmp_path: Path) -> None:
    paths = DataDir(tmp_path)
    made = pipeline(table="q", schema="s", host="h", password="p", input={"format": "rows"})
    assert asks_server(made, "rows")
    told = with_live_formats(made, paths, keep=True).format("rows")
    assert told is not None
    assert told.config == {
        "embedded_dir": str(paths.server("postgres")),
        "schema_dir": str(schema_dir(paths, "rows")),
        "table": "q",
        "schema": "s",
        "host": "h",
        "password": "p",
    }
    own = made.model_copy(update={"formats": [made.formats[0].model_copy(update={"config": {"table": "mine"}})]})
    kept = with_live_formats(own, paths, keep=False).format("rows")
    assert kept is not None and kept.config == {"embedded_dir": str(paths.server("postgres")), "table": "mine"}
