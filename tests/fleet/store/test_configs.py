"""Versions of configs: who changed what, differences, rollback."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Config, Kind
from gauss.fleet.store.differences import MASK, ConfigDifference, differences
from gauss.model.errors import NotFound


@pytest.fixture
def pipeline_id(store: FleetStore) -> str:
    return store.pipelines.create("orders", "", who="me").id


def put(store: FleetStore, pipeline_id: str, kind: Kind, document: Any, who: str = "me", **secrets: str) -> int:
    return store.configs.change(pipeline_id, kind, who, lambda _: Config(document, secrets)).version


def test_each_change_is_a_version_of_the_whole_pipeline(store: FleetStore, pipeline_id: str) -> None:
    assert put(store, pipeline_id, Kind.KAFKA, {"topic": "a"}, "ann") == 1
    assert put(store, pipeline_id, Kind.MAPPING, {"columns": []}, "bob") == 2
    assert put(store, pipeline_id, Kind.KAFKA, {"topic": "a"}) == 1, "nothing differs"
    assert put(store, pipeline_id, Kind.KAFKA, {"topic": "b"}, "cid") == 3
    versions = [(each.version, each.kinds, each.who) for each in store.configs.versions(pipeline_id)]
    assert versions == [(3, (Kind.KAFKA,), "cid"), (2, (Kind.MAPPING,), "bob"), (1, (Kind.KAFKA,), "ann")]
    assert store.pipelines.get(pipeline_id).version == 3
    found = store.configs.as_of(pipeline_id, 2)
    assert {kind: config.document for kind, config in found.items()} == {
        Kind.KAFKA: {"topic": "a"},
        Kind.MAPPING: {"columns": []},
    }


def test_a_rollback_is_a_new_version_with_the_earlier_content(store: FleetStore, pipeline_id: str) -> None:
    put(store, pipeline_id, Kind.KAFKA, {"topic": "a"}, saslPassword="one")
    put(store, pipeline_id, Kind.MAPPING, {"columns": [1]})
    put(store, pipeline_id, Kind.KAFKA, {"topic": "b"}, saslPassword="two")
    put(store, pipeline_id, Kind.MAPPING, {"columns": [2]})
    assert store.configs.rollback(pipeline_id, 2, "ann") == 5
    kafka = store.configs.get(pipeline_id, Kind.KAFKA)
    assert kafka == Config({"topic": "a"}, {"saslPassword": "one"}, 5)
    newest = store.configs.versions(pipeline_id)[0]
    assert (newest.kinds, newest.who, newest.note) == ((Kind.KAFKA, Kind.MAPPING), "ann", "rollback to 2")
    assert store.configs.rollback(pipeline_id, 5, "ann") == 5, "nothing differs"
    for missing in (0, 6):
        with pytest.raises(NotFound, match="no version"):
            store.configs.rollback(pipeline_id, missing, "ann")


def test_a_rollback_keeps_parts_that_the_earlier_version_did_not_have(store: FleetStore, pipeline_id: str) -> None:
    put(store, pipeline_id, Kind.KAFKA, {"topic": "a"})
    put(store, pipeline_id, Kind.MAPPING, {"columns": [1]})
    put(store, pipeline_id, Kind.KAFKA, {"topic": "b"})
    store.configs.rollback(pipeline_id, 1, "me")
    found = store.configs.as_of(pipeline_id, 4)
    assert (found[Kind.KAFKA].document, found[Kind.MAPPING].document) == ({"topic": "a"}, {"columns": [1]})


def test_differences_name_paths_and_hide_secrets() -> None:
    before = {
        Kind.KAFKA: Config({"topic": "a", "group": "g"}, {"saslPassword": "one"}),
        Kind.MAPPING: Config({"columns": [{"column": "x", "type": "Int64"}]}, {}),
    }
    after = {
        Kind.KAFKA: Config({"topic": "b", "group": "g"}, {"saslPassword": "two", "tlsKey": "pem"}),
        Kind.MAPPING: Config({"columns": [{"column": "x", "type": "String"}]}, {}),
    }
    assert differences(before, after) == [
        ConfigDifference("kafka.saslPassword", MASK, MASK),
        ConfigDifference("kafka.tlsKey", None, MASK),
        ConfigDifference("kafka.topic", "a", "b"),
        ConfigDifference("mapping.columns[x].type", "Int64", "String"),
    ]


def test_concurrent_changes_make_one_version_each(store: FleetStore, pipeline_id: str) -> None:
    def change(name: str) -> None:
        for number in range(5):
            put(store, pipeline_id, Kind.KAFKA, {"topic": f"{name}{number}"})

    threads = [threading.Thread(target=change, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.version for each in store.configs.versions(pipeline_id)] == list(range(20, 0, -1))


def test_the_config_of_an_unknown_pipeline_is_refused(store: FleetStore) -> None:
    with pytest.raises(NotFound, match="no pipeline"):
        put(store, "nobody", Kind.KAFKA, {})
