"""Stateless processors in standing tasks against a real engine, without a JVM: published records and dead letters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.model.errors import ConfigError
from helpers.standing import Hosted, designed, hosted_config

pytestmark = pytest.mark.system
ANY = {"input": {"format": "json"}}


class Runs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Hosted] = []

    def __call__(self, plugin: str, records: list[bytes], **given: Any) -> Hosted:
        """Runs one epoch of a processor over some records."""
        pipeline = hosted_config(plugin, **given)
        if "input" not in given:
            del pipeline["processors"][0]["config"]["input"]
        self._made.append(Hosted(self._folder / str(len(self._made)), pipeline))
        made = self._made[-1]
        made.send(records)
        assert list(made.task.epoch()) == ["p"]
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    made.close()


def test_what_can_not_be_decompressed_is_a_dead_letter_with_its_bytes(run: Runs) -> None:
    good = [gzip.compress(b"one"), gzip.compress(b"two")]
    made = run("decompress", [good[0], b"plain", good[1]], algo="gzip")
    assert made.records() == [b"one", b"two"]
    [letter] = [json.loads(record) for record in made.records("_dead")]
    assert (letter["reason"], letter["offset"], letter["data"]) == ("bad_compression", 1, "cGxhaW4=")


def test_fields_that_nobody_names_come_out_as_they_came_in(run: Runs) -> None:
    made = run(
        "mask", [b'{"a":1.10,"email":"x@y.z","o":{"b":[ 1]}}', b'{"a":2}', b'{"email":7}'], fields=["email"], **ANY
    )
    assert made.records() == [b'{"a":1.10,"email":"***","o":{"b":[ 1]}}', b'{"a":2}']
    assert [json.loads(record)["reason"] for record in made.records("_dead")] == ["wrong_type"]


def test_an_array_of_objects_becomes_a_record_per_object(run: Runs) -> None:
    made = run("flatten", [b'{"id":1,"items":[{"sku":"a"},{"sku":"b"}]}', b'{"id":2,"items":[]}'], field="items", **ANY)
    assert made.records() == [b'{"id":1,"items":{"sku":"a"}}', b'{"id":1,"items":{"sku":"b"}}']


def several(plugin: str, topics: list[str], **given: Any) -> dict[str, Any]:
    """The config of a processor with several sources or targets, which are named in its own config."""
    pipeline = hosted_config(plugin, **given)
    pipeline["topics"] += [{"name": name, "storage": "memory"} for name in topics]
    entry = pipeline["processors"][0]
    del entry["source" if plugin == "union" else "target"]
    if plugin == "union":
        del entry["config"]["input"]
    return pipeline


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Callable[..., Hosted]]:
    made: list[Hosted] = []

    def make(*args: Any, **given: Any) -> Hosted:
        made.append(Hosted(tmp_path, several(*args, **given)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_router_publishes_to_all_its_targets_in_one_epoch(many: Callable[..., Hosted]) -> None:
    routes = [{"when": ".n > 1", "topic": "big"}, {"when": ".n == 0", "topic": "none"}]
    made = many("router", ["big", "none", "rest"], routes=routes, otherwise="rest", **ANY)
    made.send([b'{"n":%d}' % n for n in (0, 1, 2, 3)] + [b"bad"])
    made.task.epoch()
    assert made.records("big") == [b'{"n":2}', b'{"n":3}']
    assert made.records("none") == [b'{"n":0}']
    assert made.records("rest") == [b'{"n":1}']
    assert len(made.records("_dead")) == 1
    made.send([b'{"n":9}'])
    made.task.epoch()
    assert made.records("big")[2:] == [b'{"n":9}']


def test_a_union_gives_every_source_its_share_and_keeps_its_order(many: Callable[..., Hosted]) -> None:
    made = many("union", ["a", "b"], sources=[{"topic": "a"}, {"topic": "b"}])
    made.send([b"a%d" % n for n in range(100)], "a")
    made.send([b"b%d" % n for n in range(3)], "b")
    made.task.epoch(rows=10)
    assert made.records("out") == [b"a0", b"a1", b"a2", b"a3", b"a4", b"b0", b"b1", b"b2"]
    made.task.epoch()
    found = made.records("out")
    assert [record for record in found if record.startswith(b"a")] == [b"a%d" % n for n in range(100)]
    assert len(found) == 103


def test_fields_that_nobody_names_can_not_change_their_format() -> None:
    given = hosted_config("mask", fields=["email"], input={"format": "json"}, output={"format": "msgpack"})
    with pytest.raises(ConfigError, match="neither format has a schema"):
        designed(given)


def test_added_fields_are_put_into_records_of_no_schema(run: Runs) -> None:
    records = [b'{"n":2,"s":"a","o":{"b":[ 1]}}', b'{"n":3,"o":{"c":0}}']
    made = run("expression", records, add={"twice": ".n * 2", "o.s": "(.s | ascii_upcase)"}, **ANY)
    assert made.records() == [
        b'{"n":2,"s":"a","o":{"b":[ 1],"s":"A"},"twice":4.0}',
        b'{"n":3,"o":{"c":0},"twice":6.0}',
    ]
