"""State in SQLite and in Postgres: values by owner and key, cursors with a history."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.connect.state import KEPT_CURSORS, StateStore, StreamCursor
from gauss.connect.state_schema import HISTORY
from gauss.contracts.connector.cursor import CursorValue, DecimalCursor, Int64Cursor, JsonCursor, NullCursor, Utf8Cursor
from gauss.model.errors import ConfigError, Fenced, Unavailable


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    made = ensure("postgres", tmp_path_factory.mktemp("state") / "postgres")
    yield made
    made.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    if request.param == "sqlite":
        return tmp_path / "connect" / "state.db"
    url: str = request.getfixturevalue("server").endpoint.url
    return url


@pytest.fixture
def store(address: str | Path) -> Iterator[StateStore]:
    made = StateStore(address)
    yield made
    made.close()


def cursor(value: CursorValue | None, generation: int = 1, checkpoint: int = 1) -> StreamCursor:
    return StreamCursor(generation, value, checkpoint, at_ms=5)


def history(store: StateStore, sync: str, stream: str) -> list[sa.RowMapping]:
    """The kept cursors of a stream, the newest first."""
    query = sa.select(HISTORY).where(HISTORY.c.sync == sync, HISTORY.c.stream == stream).order_by(HISTORY.c.id.desc())
    with store.transaction() as connection:
        return list(connection.execute(query).mappings())


def test_values_are_separate_per_owner_and_key(store: StateStore, address: str | Path) -> None:
    for owner in ("p", "p/s"):
        for key in ("a", "b"):
            assert store.get(owner, key) is None
            store.put(owner, key, f"{owner}{key}".encode())
    store.put("p", "a", b"\0\xff")
    again = StateStore(address)
    assert [again.get(owner, key) for owner in ("p", "p/s") for key in ("a", "b")] == [
        b"\0\xff",
        b"pb",
        b"p/sa",
        b"p/sb",
    ]
    again.close()


def test_compare_and_set_changes_only_the_expected_value(store: StateStore) -> None:
    assert not store.compare_and_set("c", "k", b"1", b"2")
    assert store.compare_and_set("c", "k", None, b"1")
    assert not store.compare_and_set("c", "k", None, b"2")
    assert not store.compare_and_set("c", "k", b"2", b"3")
    assert store.compare_and_set("c", "k", b"1", b"2")
    assert store.get("c", "k") == b"2"


def test_concurrent_compare_and_set_loses_no_update(store: StateStore) -> None:
    def count() -> None:
        done = 0
        while done < 10:
            known = store.get("n", "k")
            done += store.compare_and_set("n", "k", known, b"%d" % (int(known or b"0") + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert store.get("n", "k") == b"40"


@pytest.mark.parametrize(
    "value", [None, NullCursor(), Int64Cursor(5), Utf8Cursor("ü"), DecimalCursor("1.5", 1), JsonCursor({"lsn": "0/1"})]
)
def test_cursors_keep_their_type(store: StateStore, value: CursorValue | None) -> None:
    assert store.cursor("typed", repr(value)) is None
    store.move("typed", repr(value), cursor(value), "run 1")
    assert store.cursor("typed", repr(value)) == cursor(value)


def test_run_of_an_earlier_generation_is_fenced(store: StateStore) -> None:
    store.move("fenced", "s", cursor(Int64Cursor(1), generation=2), "run 2")
    with pytest.raises(Fenced):
        store.move("fenced", "s", cursor(Int64Cursor(9), generation=1), "run 1")
    store.move("fenced", "s", cursor(Int64Cursor(2), generation=3), "run 3")
    found = store.cursor("fenced", "s")
    assert found is not None and found.value == Int64Cursor(2)
    assert [row["by"] for row in history(store, "fenced", "s")] == ["run 3", "run 2"]


def test_history_of_a_stream_is_bounded(store: StateStore) -> None:
    for number in range(KEPT_CURSORS + 5):
        store.move("bounded", "s", cursor(Int64Cursor(number), checkpoint=number), "run")
    store.move("bounded", "other", cursor(None), "run")
    rows = history(store, "bounded", "s")
    assert [rows[0]["checkpoint"], rows[-1]["checkpoint"]] == [KEPT_CURSORS + 4, 5]
    assert len(rows) == KEPT_CURSORS
    assert len(history(store, "bounded", "other")) == 1


def test_invalid_or_unreachable_address_is_refused_without_its_password() -> None:
    for address in ("mysql://u:secret@h/d", "secret"):
        with pytest.raises(ConfigError) as caught:
            StateStore(address)
        assert "secret" not in str(caught.value) + caught.value.hint
    with pytest.raises(Unavailable) as gone:
        StateStore("postgresql://u:secret@127.0.0.1:1/d")
    assert "secret" not in str(gone.value) + gone.value.hint
