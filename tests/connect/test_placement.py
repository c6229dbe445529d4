"""Where a sync runs: by its config, else by the size of its full refreshes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.config.syncs import SyncDef
from gauss.connect.placement import SMALL_ROWS, place
from gauss.connect.plan import plan_streams
from gauss.connect.sync import Sync
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream
from gauss.contracts.connector.stream import ColumnSchema, SyncMode

REFRESH = {"name": "a"}
INCREMENT = {"name": "a", "mode": "incremental", "cursor": "n"}
CHANGES = {"name": "a", "mode": "cdc"}
QUERY = {"name": "a", "transform": {"sql": "SELECT 1"}}


def sync(**given: Any) -> SyncDef:
    sides = {"source": {"connector": "x:S"}, "destination": {"connector": "x:D"}}
    return SyncDef.model_validate({"name": "s", **sides, **given})


@pytest.mark.parametrize(
    ("stream", "rows", "runs_on", "local", "expected"),
    [
        (REFRESH, SMALL_ROWS, "auto", False, "on Spark: about 5,000,000 rows"),
        (REFRESH, SMALL_ROWS - 1, "auto", False, "in this process: about 4,999,999 rows"),
        (REFRESH, None, "auto", False, "in this process: about 0 rows to read, as far as the source says"),
        (INCREMENT, SMALL_ROWS, "auto", False, "in this process: no full refresh"),
        (REFRESH, SMALL_ROWS, "local", False, 'in this process: asked for by runs_on = "local"'),
        (REFRESH, SMALL_ROWS, "spark", True, "in this process: asked for by --local"),
        (INCREMENT, None, "spark", False, 'on Spark: asked for by runs_on = "spark"'),
        (CHANGES, None, "spark", False, 'on Spark: asked for by runs_on = "spark"'),
        (QUERY, None, "auto", True, 'on Spark: the transform of "a" is a query'),
    ],
)
def test_a_sync_runs_where_config_or_size_say(
    stream: dict[str, Any], rows: int | None, runs_on: str, local: bool, expected: str
) -> None:
    found = CatalogStream("a", [ColumnSchema("n", "Int64")], list(SyncMode), estimated_rows=rows)
    definition = sync(streams=[stream], runs_on=runs_on)
    plans = plan_streams(definition, Catalog([found]), [])
    assert str(place(definition, plans, local=local)).startswith(expected)


def test_large_files_are_refreshed_on_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):  # of which only the beginnings are not empty
        with (tmp_path / "in" / f"{name}.csv").open("w") as file:
            file.write("n,text\n" + "1,abcdef\n" * 200_000)
            file.truncate(30_000_000)
    sides = {role: {"connector": "file", "path": str(tmp_path / role)} for role in ("in", "out")}
    definition = sync(source=sides["in"], destination=sides["out"])
    assert str(Sync(definition, tmp_path, tmp_path / ".gauss").placement()).startswith("on Spark: about 6,666,6")
