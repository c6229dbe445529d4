"""Plans of streams: made from the catalog and the limits that connectors propose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss import registry
from gauss.config.syncs import SyncDef
from gauss.connect.plan import plan_streams, plan_sync
from gauss.connect.sides import make_side
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream, JsonConfig, OpenInfo
from gauss.contracts.connector.stream import ColumnSchema, StreamContext, SyncMode
from gauss.model.errors import ConfigError

SYNC = SyncDef.model_validate({"name": "s", "source": {"connector": "a"}, "destination": {"connector": "b"}})
CATALOG = Catalog([CatalogStream("t", [ColumnSchema("n", "Int64")], [SyncMode.FULL_REFRESH])])


@pytest.mark.parametrize(
    ("proposed", "limit"),
    [([5_000, 9_000], 5_000), ([0, 9_000], 9_000), ([1], 1 << 10), ([1 << 62], 1 << 30), ([], 8 << 20)],
)
def test_batch_limit_is_the_smallest_proposal_of_the_connectors_within_bounds(proposed: list[int], limit: int) -> None:
    [plan] = plan_streams(SYNC, CATALOG, [OpenInfo(default_max_batch_bytes=each) for each in proposed])
    assert plan.limits.max_batch_bytes == limit


class Tables:
    """A source with some tables, of which `secret` may not be read."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def discover(self) -> Catalog:
        return Catalog([CatalogStream(name, [], [SyncMode.FULL_REFRESH]) for name in self._names])

    def stream_schema(self, stream: StreamContext) -> pa.Schema:
        if stream.stream_name == "secret":
            raise ConnectorError.permission("NOT_READABLE", "grant it")
        if stream.stream_name not in self._names:
            raise ConnectorError.config("NO_STREAM", "no such table")
        return pa.schema([])


def sync(connector: str, streams: Any = "*", **config: Any) -> SyncDef:
    destination = {"connector": connector, **config}
    given = {"name": "s", "source": {"connector": "a"}, "destination": destination, "streams": streams}
    return SyncDef.model_validate(given)


@pytest.mark.parametrize("connector", ["postgres", "clickhouse", "topic"])
def test_all_streams_are_refused_if_two_of_them_land_in_one_table(connector: str) -> None:
    with pytest.raises(ConnectorError, match=r'"a\.t" and "b\.t" would both be written to "t"') as caught:
        plan_sync(sync(connector), Tables("a.t", "a.u", "b.t"), [])
    assert caught.value.category is ErrorCategory.CONFIG
    renamed = sync(connector, tables={"b.t": "other"})
    for possible in (renamed, sync("file")):  # folders have whole names
        assert [each.name for each in plan_sync(possible, Tables("a.t", "b.t"), [])] == ["a.t", "b.t"]


def test_a_table_of_the_destination_that_another_stream_has_is_refused() -> None:
    given = sync("postgres", [{"name": "a.t"}, {"name": "a.u"}], tables={"a.u": "t"})
    with pytest.raises(ConnectorError, match='would both be written to "t"'):
        plan_sync(given, Tables("a.t", "a.u"), [])


def test_a_stream_that_may_not_be_read_is_a_permission_error_and_not_one_of_its_name() -> None:
    with pytest.raises(ConnectorError, match="grant it") as caught:
        plan_sync(sync("postgres", [{"name": "secret"}]), Tables("other"), [])
    assert caught.value.category is ErrorCategory.PERMISSION
    with pytest.raises(ConnectorError, match='no stream "othr": did you mean "other"'):
        plan_sync(sync("postgres", [{"name": "othr"}]), Tables("other"), [])


def test_a_source_that_discovers_no_catalog_is_named() -> None:
    source = Tables()
    source.discover = lambda: None  # type: ignore
    with pytest.raises(ConnectorError, match="discover returns a Catalog, found NoneType"):
        plan_sync(sync("postgres"), source, [])


def test_streams_and_fields_that_a_source_names_twice_are_refused() -> None:
    with pytest.raises(ConnectorError, match="names streams twice: t"):
        plan_streams(SYNC, Catalog(CATALOG.streams * 2), [])
    twice = CatalogStream("t", [ColumnSchema("n", "Int64")] * 2, [SyncMode.FULL_REFRESH])
    with pytest.raises(ConnectorError, match='"t" has two fields "n"'):
        plan_streams(SYNC, Catalog([twice]), [])


def test_a_class_is_told_the_tables_of_its_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_connectors.py").write_text("class Own:\n    def run_write(self, stream): ...\n")
    monkeypatch.setenv(registry.PLUGIN_DIR, str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    given = sync("own_connectors:Own", [{"name": "a", "table": "b"}, {"name": "c"}], tables={"c": "d"})
    side = make_side("destination", given, tmp_path, tmp_path)
    assert side.config == JsonConfig({"tables": {"a": "b", "c": "d"}})
    assert make_side("destination", sync("own_connectors:Own"), tmp_path, tmp_path).config == JsonConfig({})


def test_settings_that_are_wrong_are_a_config_error_without_their_values(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make_side("destination", sync("postgres", dsn="secret word", schema="x"), tmp_path, tmp_path)
    assert "destination postgres: " in caught.value.message and "dsn can't be read" in caught.value.message
    assert "secret word" not in caught.value.message + caught.value.hint
