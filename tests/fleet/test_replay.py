"""Dead letters become rows of a real table: each once, whatever happens between the insert and the removal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.embedded import EmbeddedServer
from gauss.fleet.config.stored import TO_STORE
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.replay import Replayed, replay
from gauss.fleet.store import letters as stored_letters
from gauss.fleet.store.configs import Kind
from gauss.fleet.store.letters import DeadLetter, Origin
from gauss.fleet.worker.range_work import MOST_LETTER_BYTES
from gauss.model.errors import ConfigError, Unavailable

pytestmark = pytest.mark.system
INC = 77


class Pipeline:
    """A pipeline with a table, of which only dead letters are needed: no broker is asked."""

    def __init__(self, store: FleetStore, clickhouse: EmbeddedServer, table: str) -> None:
        self.store, self.endpoint, self.table = store, clickhouse.endpoint, table
        self.id = store.pipelines.create("orders", "", "me").id
        self.put(Kind.KAFKA, {"brokers": "127.0.0.1:1", "topic": "t"})
        login = f"{self.endpoint.user}:{self.endpoint.password}@{self.endpoint.host}"
        self.clickhouse: dict[str, Any] = {"dsn": f"http://{login}:{self.endpoint.port}", "table": table}
        self.put(Kind.CLICKHOUSE, self.clickhouse)
        self.put(Kind.MAPPING, {"columns": [{"fieldPath": "id", "column": "id", "type": "Int64"}], "orderBy": ["id"]})

    def put(self, kind: Kind, document: dict[str, Any]) -> None:
        self.store.configs.change(self.id, kind, "me", lambda old: TO_STORE[kind](document, old))

    def add(self, offset: int, data: bytes | None) -> None:
        letter = DeadLetter(offset, "map", "bad", "", "", data, 1_000)
        with self.store.database.transaction() as connection:
            stored_letters.add(connection, self.id, Origin(INC, "t", 0), [letter])

    def replay(self, *offsets: int) -> list[Replayed]:
        return replay(self.store, self.id, [(INC, offset) for offset in offsets], "me")

    def outcomes(self, *offsets: int) -> list[str]:
        return [each.outcome for each in self.replay(*offsets)]

    def left(self) -> list[int]:
        return sorted(each.letter.offset for each in self.store.letters.list(self.id))

    def query(self, text: str) -> list[Any]:
        client = connect(self.endpoint)
        try:
            return list(client.query(text.format(table=self.table)).result_rows)
        finally:
            client.close()

    def rows(self) -> list[tuple[int, int, int]]:
        return self.query("SELECT id, _inc, _offset FROM {table} ORDER BY _offset")


@pytest.fixture
def pipeline(clickhouse: EmbeddedServer, tmp_path: Path) -> Iterator[Pipeline]:
    store = FleetStore(tmp_path / "fleet.db", tmp_path / "fleet.key")
    yield Pipeline(store, clickhouse, f"replayed_{tmp_path.name.replace('-', '_')}")
    store.close()


def test_corrected_letters_become_rows_and_others_stay_with_their_reason(pipeline: Pipeline) -> None:
    pipeline.put(Kind.FILTERS, {"enabled": True, "expression": ".id >= 10"})
    for offset, data in enumerate((b'{"id": 10}', b"{bad", b'{"id": "x"}', b'{"id": 9}', None)):
        pipeline.add(offset, data)
    pipeline.store.letters.edit(pipeline.id, (INC, 1), b'{"id": 11}', "me")
    found = pipeline.replay(0, 1, 2, 3, 4, 5)
    assert [each.outcome for each in found] == ["replayed", "replayed", "refused", "filtered", "refused", "gone"]
    assert [bool(each.reason) for each in found] == [False, False, True, False, True, False]
    assert pipeline.rows() == [(10, INC, 0), (11, INC, 1)]
    assert pipeline.left() == [2, 4]


def test_a_new_mapping_makes_rows_of_letters_that_did_not_fit_the_old_one(pipeline: Pipeline) -> None:
    pipeline.add(0, b'{"id": "x"}')
    assert pipeline.outcomes(0) == ["refused"]
    pipeline.put(Kind.CLICKHOUSE, {**pipeline.clickhouse, "table": f"{pipeline.table}_text"})
    pipeline.put(Kind.MAPPING, {"columns": [{"fieldPath": "id", "column": "id", "type": "String"}], "orderBy": ["id"]})
    assert pipeline.outcomes(0) == ["replayed"]
    assert pipeline.query("SELECT id FROM {table}_text") == [("x",)]


def test_a_replay_whose_end_was_lost_adds_nothing_when_it_is_repeated(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between the insert and the removal of the letter; then the record is even edited."""
    pipeline.add(0, b'{"id": 1}')

    def die(*_: object) -> None:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.store.letters, "replayed", die)
        with pytest.raises(Unavailable):
            pipeline.replay(0)
    assert (pipeline.rows(), pipeline.left()) == ([(1, INC, 0)], [0])
    pipeline.store.letters.edit(pipeline.id, (INC, 0), b'{"id": 2}', "me")
    assert pipeline.outcomes(0) == ["replayed"]
    assert pipeline.outcomes(0) == ["gone"]
    assert (pipeline.rows(), pipeline.left()) == ([(1, INC, 0)], [])


def test_a_row_whose_token_is_forgotten_is_found_by_its_offset(pipeline: Pipeline) -> None:
    """ClickHouse remembers some tokens only: the table itself is asked."""
    pipeline.add(0, b'{"id": 1}')
    pipeline.replay(0)
    pipeline.query("ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 0")
    pipeline.add(0, b'{"id": 1}')
    assert pipeline.outcomes(0) == ["replayed"]
    assert pipeline.rows() == [(1, INC, 0)]


def test_replays_at_the_same_time_insert_each_letter_once(pipeline: Pipeline) -> None:
    offsets = range(20)
    for offset in offsets:
        pipeline.add(offset, b'{"id": %d}' % offset)
    found: list[list[str]] = []
    start = threading.Barrier(3)

    def run() -> None:
        start.wait()
        found.append(pipeline.outcomes(*offsets))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row[2] for row in pipeline.rows()] == list(offsets)
    assert {outcome for each in found for outcome in each} <= {"replayed", "gone"}
    assert len(found) == 3
    assert pipeline.left() == []


def test_a_record_that_was_kept_only_in_part_is_not_replayed_as_it_is(pipeline: Pipeline) -> None:
    pipeline.add(0, b'{"id": 1}' + b" " * MOST_LETTER_BYTES)
    (found,) = pipeline.replay(0)
    assert (found.outcome, "edit it" in found.reason) == ("refused", True)
    pipeline.store.letters.edit(pipeline.id, (INC, 0), b'{"id": 1}', "me")
    assert pipeline.outcomes(0) == ["replayed"]


def test_without_a_mapping_or_a_table_nothing_is_replayed(pipeline: Pipeline) -> None:
    pipeline.add(0, b'{"id": 1}')
    pipeline.put(Kind.CLICKHOUSE, {**pipeline.clickhouse, "createTableIfMissing": False})
    with pytest.raises(ConfigError, match="is missing"):
        pipeline.replay(0)
    assert pipeline.left() == [0]
    assert pipeline.outcomes(5, 6) == ["gone", "gone"]
