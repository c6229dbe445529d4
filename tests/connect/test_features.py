"""Features that connectors announce gate what they are used for."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from gauss.contracts.connector.errors import ConnectorError
from helpers.sync_world import World

CONNECTORS = '''
from pathlib import Path
import sample
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream
from gauss.contracts.connector.stream import ColumnSchema, SyncMode

class Capturing(sample.Numbers):
    """Has a stream of changes, but announces no cdc."""
    def discover(self):
        return Catalog([CatalogStream("a", [ColumnSchema("n", "Int64")], [SyncMode.CDC])])

class Unchanging(sample.Lines):
    """Manages its table, but announces no schema_auto_migrate."""
    def landed(self, schema): return schema
    def describe(self, stream): return None
    def statements(self, stream, live, wanted): return ["CREATE TABLE a (n bigint)"]
    def prepare(self, stream, statements, generation): Path(self.config["folder"], "prepared").touch()
    def watermark(self, stream, partition): return None
    def opaque_kind(self, stream, wanted): return ""
    def finish(self, stream, generation): pass
'''


@pytest.fixture
def plain(world: World) -> Iterator[World]:
    (world.folder / "plain.py").write_text(CONNECTORS)
    sys.modules.pop("plain", None)
    yield world
    sys.modules.pop("plain", None)


def test_a_destination_without_the_feature_gets_no_statements(plain: World) -> None:
    sync = plain.sync(destination={"connector": "plain:Unchanging"})
    with pytest.raises(ConnectorError, match="schema_auto_migrate"):
        sync.dry_run()
    result = sync.run()
    assert result.status == "failed" and result.error is not None and result.error.code == "NO_MIGRATION"
    assert result.error.hint == "run: CREATE TABLE a (n bigint)"
    assert not (plain.folder / "prepared").exists() and not (plain.folder / "a.reads").exists()


def test_a_mode_that_a_connector_does_not_announce_is_refused_before_a_table_is_made(plain: World) -> None:
    stream = {"name": "a", "mode": "cdc", "write": "append"}
    sides = {"source": {"connector": "plain:Capturing"}, "destination": {"connector": "plain:Unchanging"}}
    result = plain.sync(**sides, streams=[stream]).run()
    assert result.status == "failed" and result.error is not None and result.error.code == "NO_CDC"
    assert not (plain.folder / "prepared").exists()
