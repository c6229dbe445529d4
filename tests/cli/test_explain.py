from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.sync_connectors import CONNECTORS

if TYPE_CHECKING:
    from .conftest import Gauss


def test_all_processors_are_explained_with_the_number_of_queries(gauss: Gauss) -> None:
    gauss("new")
    done = gauss("explain")
    assert done.returncode == 0, done.stderr
    assert "  runs        in the engine: it frames" in done.stdout
    assert done.stdout.rstrip().endswith(
        "1 processor on Spark in 0 standing tasks and 1 query; on this machine every task has a slot"
    )


def test_one_processor_as_json(gauss: Gauss) -> None:
    gauss("new")
    said = json.loads(gauss("explain", ".", "high", "--json").stdout)
    assert said["queries"] == ["high"]
    (found,) = said["processors"]
    assert found["runs"] in ("hosted", "columns")
    assert {"step", "what"} == set(found["plan"][0])


def test_unknown_processor_is_refused_with_those_there_are(gauss: Gauss) -> None:
    gauss("new")
    done = gauss("explain", ".", "hihg")
    assert done.returncode == 3
    assert 'no processor "hihg"' in done.stderr and "high" in done.stderr


SYNCS = """
[[syncs]]
name = "numbers"
source = { connector = "sample:Numbers", folder = "." }
destination = { connector = "sample:Lines", folder = "." }
streams = [{ name = "a", mode = "incremental", cursor = "n" }]
[[syncs]]
name = "queried"
source = { connector = "sample:Numbers", folder = "." }
destination = { connector = "sample:Lines", folder = "." }
streams = [{ name = "a", transform = { sql = "SELECT * FROM input" } }]
[[syncs]]
name = "chosen"
runs_on = "spark"
source = { connector = "postgres", dsn = "postgresql://u:secret@127.0.0.1:1/d" }
destination = { connector = "sample:Lines", folder = "." }
[[syncs]]
name = "unreachable"
source = { connector = "postgres", dsn = "postgresql://u:secret@127.0.0.1:1/d" }
destination = { connector = "sample:Lines", folder = "." }
"""


def test_a_sync_says_where_it_runs_and_why(gauss: Gauss, tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(CONNECTORS)
    (tmp_path / "gauss.toml").write_text(SYNCS)
    done = gauss("explain")
    assert done.returncode == 0, done.stderr
    assert "runs        in this process: no full refresh that tasks could share" in done.stdout
    assert 'runs        on Spark: asked for by runs_on = "spark"' in done.stdout
    assert "stream      a: incremental by n, append" in done.stdout
    assert 'runs        on Spark: the transform of "a" is a query' in done.stdout
    assert "secret" not in done.stdout
    (found,) = json.loads(gauss("explain", ".", "unreachable", "--json").stdout)["syncs"]
    assert found["runs"].startswith("in this process below 5,000,000 rows") and "can't be asked" in found["runs"]
    assert found["streams"] == ["all of the source"]
