"""`gauss schema` and `gauss db url`, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gauss.cli.arguments import file_and_name
from gauss.cli.main import main
from helpers.run import free_port

if TYPE_CHECKING:
    from .conftest import Gauss

CONFIG = """
[[formats]]
name = "orders"
plugin = "json"
config = { fields = [
    { name = "$.order.id", type = "int64" },
    { name = "$.price", type = { name = "decimal", attrs = { precision = 18, scale = 8 } } },
    { name = "$.secret", type = "string" },
] }

[[schema_maps]]
name = "map"
script = "map.star"

[[topics]]
name = "orders.pg"
storage = "postgres"
storage_config = { format = "orders", schema_map = "map", key = "id", schema = { table = "orders" } }

[[topics]]
name = "plain"
storage = "memory"
"""
SCRIPT = """
def map_schema(source, target):
    target["fields"].append(column("id", "BIGINT", source = "$.order.id"))
    target["fields"].append(column("price", "NUMERIC", source = "$.price", precision = 18, scale = 8))
    target["fields"].append(column("made", "TIMESTAMPTZ", props = {"default": "now()"}))
    return target
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "map.star").write_text(SCRIPT)
    (tmp_path / "gauss.toml").write_text(CONFIG)
    return tmp_path


def test_fields_columns_and_ddl_stand_side_by_side(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["schema", "orders.pg", str(config), "--json", "--data-dir", str(config / "none")])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["field"], row["column"]) for row in found["columns"]] == [
        ("$.order.id", '"id" BIGINT'),
        ("$.price", '"price" NUMERIC(18,8)'),
        ("", '"made" TIMESTAMPTZ DEFAULT now()'),
        ("", '"_inc" BIGINT'),
        ("", '"_offset" BIGINT'),
    ]
    assert 'PRIMARY KEY ("id")' in found["statement"]
    assert found["differences"] is None
    assert "is not up" in found["verdict"]


def test_explain_names_the_converters_and_what_is_left_out(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["schema", "orders.pg", str(config), "--explain", "--data-dir", str(config / "none")])
    said = capsys.readouterr().out
    assert "as it is" in said
    assert "decimal(precision 18, scale 8)" in said
    assert "not mapped: $.secret" in said


def test_topic_that_is_no_table_is_refused_with_those_that_are(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["schema", "plain", str(config)])
    assert ended.value.code == 3
    assert "in this config: orders.pg" in capsys.readouterr().err


def test_script_that_fails_is_told_with_its_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config / "map.star").write_text("def map_schema(source, target):\n    fail('no such type')\n")
    with pytest.raises(SystemExit) as ended:
        main(["schema", "orders.pg", str(config)])
    assert ended.value.code == 1
    assert "map.star:2" in capsys.readouterr().err


def test_url_of_a_server_that_does_not_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["db", "url", "postgres", "--data-dir", str(tmp_path)])
    assert ended.value.code == 4
    assert "no embedded postgres runs" in capsys.readouterr().err


def test_the_table_is_shown_as_a_source_too(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["schema", "orders.pg", str(config), "--json", "--data-dir", str(config / "none")])
    source = json.loads(capsys.readouterr().out)["source"]
    assert source["attrs"] == {"database": "postgres", "schema": "public", "table": "orders"}
    assert (source["time"], source["key"]) == ("", ["id"])
    assert {field["name"]: field["type"] for field in source["fields"]}["price"] == "numeric(precision 18, scale 8)"
    with pytest.raises(SystemExit):
        main(["schema", "orders.pg", str(config), "--explain", "--data-dir", str(config / "none")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "table orders; query returns all rows: no column holds the record's time, a row per id" in shown
    assert "timestamptz" in shown


def test_file_comes_first_and_a_name_alone_or_before_its_file_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.touch()
    assert file_and_name(file, "quotes.ch") == (file, "quotes.ch")
    assert file_and_name(Path("quotes.ch"), "") == (Path(), "quotes.ch")
    assert file_and_name(Path("quotes.ch"), str(file)) == (file, "quotes.ch")
    assert file_and_name(Path("missing.toml"), "quotes.ch") == (Path("missing.toml"), "quotes.ch")
    assert file_and_name(Path("missing.toml"), "") == (Path("missing.toml"), "")


def test_a_clickhouse_that_is_away_is_told_in_one_plain_line(config: Path, gauss: Gauss) -> None:
    text = CONFIG.replace('storage = "postgres"', 'storage = "clickhouse"').replace(
        'schema_map = "map", key = "id",', f'host = "127.0.0.1", port = {free_port()},'
    )
    (config / "gauss.toml").write_text(text)
    done = gauss("schema", "orders.pg", str(config))
    assert done.returncode == 0, done.stderr
    assert "not compared with the live table: ClickHouse does not answer: Connection refused" in done.stdout
    assert done.stderr == ""
