"""Which states are evicted, in which order and how many; sizes that follow what others share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.dbstates.settings import CapacitySettings
from gauss.dbstates.statefs.files import CopiedFiles
from gauss.dbstates.store.cache import Cache
from gauss.dbstates.store.capacity import Capacity
from gauss.dbstates.store.layout import Layout
from gauss.dbstates.store.metadata import Metadata, now_ms
from gauss.dbstates.store.states import States
from gauss.dbstates.telemetry.audit import Audit
from gauss.dbstates.telemetry.metrics import Metrics
from helpers.states import add_state

KIB = 1024
HOUR_MS = 3_600_000


class Store:
    """States with files, and their capacity."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder)
        self.layout.make()
        self.metadata = Metadata(self.layout.metadata)
        self.states = States(self.metadata)
        self.cache = Cache(self.layout, self.states, CopiedFiles())
        self.instances: list[dict[str, Any]] = []
        self.settings = CapacitySettings(maxBytes=1 << 30, minStateAgeSecs=60)
        self.capacity = Capacity(
            self.layout, self.states, self.cache, instances=lambda: self.instances, synced=lambda: None,
            settings=lambda: self.settings, metrics=Metrics(), audit=Audit(folder / "audit.ndjson"),
        )  # fmt: skip

    def add(self, name: str, kib: int = 100, *, unused_hours: float = 1, hits: int = 0, parent: str = "base") -> str:
        state = add_state(self.states, name * 64, parent=parent if parent == "base" else parent * 64)
        used = now_ms() - round(unused_hours * HOUR_MS)
        self.metadata.update("states", "id = ?", state, used_ms=used, created_ms=used, hits=hits)
        folder = self.cache.path(self.states.get(state))
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * kib * KIB)
        return name

    def limit(self, kib: int) -> None:
        self.settings = CapacitySettings(maxBytes=kib * KIB, minStateAgeSecs=60)

    def evicted(self) -> str:
        self.capacity.measure()
        return "".join(state[0] for state in self.capacity.make_room())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path)
    yield found
    found.metadata.close()


def test_the_largest_and_longest_unused_state_goes_first(store: Store) -> None:
    store.add("a", 400, unused_hours=1)  # weight 400
    store.add("b", 100, unused_hours=8)  # 800
    store.add("c", 400, unused_hours=9, hits=9)  # 360: asked for often
    store.add("d", 100, unused_hours=1)  # 100
    store.limit(1)
    assert store.evicted() == "bacd"
    assert list(store.layout.engines.glob("*/*/states/*")) == []


def test_eviction_begins_at_the_high_mark_and_ends_at_the_low_one(store: Store) -> None:
    for name in "abcdefgh":
        store.add(name, 100, unused_hours=ord(name))
    store.limit(1000)  # 800 of 1000
    assert store.evicted() == ""
    store.limit(860)  # 93 %
    assert store.evicted() == "hg"  # 700 would be 81 %
    assert store.evicted() == ""


def test_states_that_are_needed_stay(store: Store) -> None:
    store.add("a")
    store.add("b", parent="a")
    store.add("c")
    store.add("d")
    store.add("e", unused_hours=0)
    store.instances.append({"id": "i", "state": "c" * 64})  # of a client, or warm
    store.limit(1)
    with store.cache.pinned(["d" * 64]):
        assert store.evicted() == "ba"  # a leaf, then what has become one
    assert {row["id"][0] for row in store.states.all()} == {"c", "d", "e"}


def test_a_state_can_not_be_pinned_between_choice_and_removal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add("a")
    store.limit(1)
    store.capacity.measure()
    chosen, seen = threading.Event(), list[bool]()
    choose = store.capacity._candidate

    def slowly(settings: CapacitySettings) -> Any:
        found = choose(settings)
        chosen.set()
        pinning.join(0.2)  # it can't go on before the state is gone
        return found

    def pin() -> None:
        chosen.wait()
        with store.cache.pinned(["a" * 64]):
            seen.append(store.states.is_ready("a" * 64))

    pinning = threading.Thread(target=pin)
    pinning.start()
    monkeypatch.setattr(store.capacity, "_candidate", slowly)
    assert store.capacity.make_room() == ["a" * 64]
    pinning.join()
    assert seen == [False]


def test_states_are_measured_again_when_an_instance_has_gone(store: Store) -> None:
    store.add("a", 100)
    store.instances.append({"id": "i", "state": "a" * 64})
    store.capacity.measure()
    before = store.states.get("a" * 64)["exclusive_bytes"]
    (store.cache.path(store.states.get("a" * 64)) / "more").write_bytes(b"x" * 64 * KIB)  # as if no longer shared
    store.capacity.measure()
    assert store.states.get("a" * 64)["exclusive_bytes"] == before
    store.instances.clear()
    while store.states.get("a" * 64)["exclusive_bytes"] == before:
        store.capacity.measure()
    assert store.states.get("a" * 64)["exclusive_bytes"] == before + 64 * KIB
