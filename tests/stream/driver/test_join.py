"""join in standing tasks against a real engine, without a JVM: the table version of an epoch, and the added columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.engine.positions import versions
from gauss.model.errors import ConfigError, Rejected
from helpers.joins import join_config
from helpers.standing import Hosted, designed

pytestmark = pytest.mark.system
ANY = {"input": {"format": "json"}}
ROWS = [b'{"symbol":"BTC","name":"Bitcoin","lot":0.001}', b'{"symbol":"ETH","name":"Ether","bid":7}']


class Joined(Hosted):
    """A standing task with a join."""

    def put(self, topic: str, *records: bytes) -> None:
        self.send(list(records), topic)

    def run(self) -> list[bytes]:
        """Runs one epoch; returns everything written so far."""
        assert list(self.task.epoch()) == ["p"]
        return self.records()


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Callable[..., Joined]]:
    made: list[Joined] = []

    def make(*rows: bytes, **given: Any) -> Joined:
        made.append(Joined(tmp_path / str(len(made)), join_config(**given)))
        if rows:
            made[-1].put("instruments", *rows)
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_left_join_adds_all_fields_but_the_key_and_the_record_keeps_its_own(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, join_type="left", **ANY)
    made.put("in", b'{"symbol":"BTC","bid":1.50,"x":[1, 2]}', b'{"symbol":"ETH","bid":2}', b'{"symbol":"DOGE"}')
    assert made.run() == [
        b'{"symbol":"BTC","bid":1.50,"x":[1, 2],"name":"Bitcoin","lot":0.001}',
        b'{"symbol":"ETH","bid":2,"name":"Ether"}',
        b'{"symbol":"DOGE"}',
    ]


def test_inner_join_keeps_only_records_with_a_row(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, b'{"symbol":7,"name":"Seven"}', join_fields=["name"], **ANY)
    keys = ['"BTC"', "null", "7", '"7"', "[1]", "1.5", '"\\u0042TC"', "true", '"no"']
    made.put("in", b'{"n":0}', *(b'{"n":%d,"symbol":%s}' % (n + 1, key.encode()) for n, key in enumerate(keys)))
    found = [json.loads(record) for record in made.run()]
    assert [(row["n"], row["name"]) for row in found] == [(1, "Bitcoin"), (3, "Seven"), (4, "Seven"), (7, "Bitcoin")]


def test_empty_table_matches_nothing(joined: Callable[..., Joined]) -> None:
    made = joined(join_type="left", **ANY)
    made.put("in", b'{"symbol":"BTC"}')
    assert made.run() == [b'{"symbol":"BTC"}']


def test_typed_formats_give_typed_columns_and_nulls_where_the_table_has_no_row(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, table_format="instrument", join_type="left", input={"format": "quote"})
    made.put("in", b'{"symbol":"BTC","bid":1.5,"x":1}', b'{"symbol":"DOGE","bid":2}')
    assert made.run() == [
        b'{"symbol":"BTC","bid":1.5,"name":"Bitcoin","lot":0.001}',
        b'{"symbol":"DOGE","bid":2.0,"name":null,"lot":null}',
    ]


def test_prefix_keeps_the_tables_fields_apart(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, join_prefix="i_", **ANY)
    made.put("in", b'{"symbol":"ETH","bid":2}')
    assert made.run() == [b'{"symbol":"ETH","bid":2,"i_name":"Ether","i_bid":7}']


def test_output_with_a_schema_takes_what_it_names_first_from_the_record(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, join_fields=["name", "bid"], **ANY, output={"format": "both"})
    made.put("in", b'{"symbol":"ETH"}', b'{"symbol":"ETH","bid":1,"name":"mine"}')
    assert made.run() == [
        b'{"symbol":"ETH","bid":7.0,"name":"Ether"}',
        b'{"symbol":"ETH","bid":1.0,"name":"mine"}',
    ]


def test_fields_that_nobody_names_are_refused_where_columns_must_be_known() -> None:
    with pytest.raises(ConfigError, match="which fields"):
        designed(join_config(input={"format": "quote"}))
    with pytest.raises(ConfigError, match="of what type"):
        designed(join_config(input={"format": "quote"}, join_fields=["name"]))
    with pytest.raises(ConfigError, match="no field nosuch"):
        designed(join_config("instrument", input={"format": "quote"}, join_fields=["nosuch"]))


def test_epoch_sees_the_table_as_it_was_when_it_was_granted(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, **ANY, join_fields=["name"])
    made.put("in", b'{"symbol":"BTC"}')
    grants = made.task.granted()
    made.put("instruments", b'{"symbol":"BTC","name":"changed"}')
    made.task.work(grants)
    assert made.records() == [b'{"symbol":"BTC","name":"Bitcoin"}']
    made.put("in", b'{"symbol":"BTC"}')
    assert made.run()[1:] == [b'{"symbol":"BTC","name":"changed"}']


def test_epoch_of_a_task_that_died_is_joined_anew_with_the_newest_version(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, **ANY, join_fields=["name"])
    made.put("in", b'{"symbol":"BTC"}')
    grants = made.task.granted()
    made.put("instruments", b'{"symbol":"BTC","name":"changed"}')
    made.task.hold(grants)  # it dies before its publish
    made.task = made.new_task(job=made.task.job, attempt=1)
    assert made.run() == [b'{"symbol":"BTC","name":"changed"}']
    assert made.task.granted() == {}


def test_changes_and_deletions_between_batches_are_followed(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, join_type="left", **ANY)
    quote = b'{"symbol":"ETH"}'
    made.put("in", quote)
    assert json.loads(made.run()[-1])["name"] == "Ether"
    made.put("instruments", b'{"symbol":"ETH","name":"Ether 2","new":true}', b'{"symbol":"X","name":"x"}')
    made.put("in", quote)
    assert json.loads(made.run()[-1]) == {"symbol": "ETH", "name": "Ether 2", "new": True}
    made.put("instruments", b'{"symbol":"ETH","gone":true}')
    made.put("in", quote)
    assert made.run()[-1] == quote


def test_table_that_moves_alone_makes_no_epoch(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, **ANY)
    made.put("in", b'{"symbol":"BTC"}')
    grants = made.task.epoch()
    assert set(versions(grants["p"].end)) == {"instruments"}
    made.put("instruments", *ROWS)
    assert made.task.granted() == {}


def test_epoch_whose_version_died_with_the_engine_is_granted_anew_with_one_version_of_the_new_table(
    joined: Callable[..., Joined],
) -> None:
    made = joined(*ROWS, join_type="left", **ANY)
    made.put("in", b'{"symbol":"BTC"}')
    grants = made.task.granted()
    made.engine.kill()
    assert made.engine.start().get("ready")
    made.put("instruments", b'{"symbol":"BTC","name":"after"}')
    made.put("in", b'{"symbol":"BTC"}')
    with pytest.raises(Rejected, match="no longer retained"):
        made.task.work(grants)
    assert made.records() == []
    made.put("instruments", b'{"symbol":"BTC","name":"later"}')
    made.task.claim()
    found = made.run()  # the first record was lost with its memory topic
    assert [json.loads(record)["name"] for record in found] == ["later"]
    assert made.task.granted() == {}


LOOKUP = {"key": "symbol", "topic": "instruments"}


def test_enrich_adds_what_a_topic_holds_for_the_key_and_drops_no_record(joined: Callable[..., Joined]) -> None:
    made = joined(*ROWS, plugin="enrich", lookup=LOOKUP, add={"venue": "x"}, **ANY)
    made.put("in", b'{"symbol":"BTC","bid":1.50}', b'{"symbol":"ETH","bid":2}', b'{"symbol":"DOGE"}')
    assert made.run() == [
        b'{"symbol":"BTC","bid":1.50,"name":"Bitcoin","lot":0.001,"venue":"x"}',
        b'{"symbol":"ETH","bid":2,"name":"Ether","venue":"x"}',
        b'{"symbol":"DOGE","venue":"x"}',
    ]
    made.put("instruments", b'{"symbol":"DOGE","name":"Dog"}')
    made.put("in", b'{"symbol":"DOGE"}')
    assert made.run()[-1] == b'{"symbol":"DOGE","name":"Dog","venue":"x"}'


def test_enrich_from_a_topic_gives_typed_columns_by_name(joined: Callable[..., Joined]) -> None:
    lookup = {**LOOKUP, "fields": ["name"], "prefix": "i_"}
    made = joined(*ROWS, table_format="instrument", plugin="enrich", lookup=lookup, input={"format": "quote"})
    made.put("in", b'{"symbol":"BTC","bid":1.5}', b'{"symbol":"DOGE","bid":2}')
    assert [json.loads(record) for record in made.run()] == [
        {"symbol": "BTC", "bid": 1.5, "i_name": "Bitcoin"},
        {"symbol": "DOGE", "bid": 2.0, "i_name": None},
    ]
