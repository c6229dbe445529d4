"""Stateless processors as hosted tasks against a real engine, without a JVM: what is published, and what is dead."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from gauss.config.spec import ProcessorDef
from gauss.config.topics import topics_of
from gauss.model.errors import ConfigError
from gauss.stream.driver import reading
from gauss.stream.driver.plan import RANGES, ReadPlan, Work, WritePlan, encode_fields, to_option
from gauss.stream.driver.sink import StreamWriter
from gauss.stream.protocol import Claim, Ends, Latest
from stream.driver.test_hosted import Hosted, config, designed

pytestmark = pytest.mark.system
ANY = {"input": {"format": "json"}}


class Runs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Hosted] = []

    def __call__(self, plugin: str, records: list[bytes], **given: Any) -> Hosted:
        """One epoch of a processor over some records."""
        pipeline = config(plugin, **given)
        if "input" not in given:
            del pipeline["processors"][0]["config"]["input"]
        self._made.append(Hosted(self._folder / str(len(self._made)), pipeline))
        made = self._made[-1]
        ends = made.send(records)
        made.writer.publish([made.task((0, len(records)))], 0, ends)
        return made

    def close(self) -> None:
        for made in self._made:
            made.engine.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    made.close()
    reading.engine.cache_clear()


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


class Many(Hosted):
    """A processor with several sources or targets, as its config names them."""

    def __init__(self, folder: Path, plugin: str, topics: list[str], **given: Any) -> None:
        pipeline = config(plugin, **given)
        pipeline["topics"] += [{"name": name, "storage": "memory"} for name in topics]
        entry = pipeline["processors"][0]
        del entry["source" if plugin == "union" else "target"]
        if plugin == "union":
            del entry["config"]["input"]
        self.sources, self.targets = topics_of(ProcessorDef.model_validate(entry))
        super().__init__(folder, pipeline)

    def claim(self) -> None:
        sources = [source.topic for source in self.sources]
        self.claimed = self.client.claim(Claim("p", "c", sources, self.targets))
        fields = encode_fields(self.design.decided({}))
        generation = self.claimed.generation
        read = ReadPlan(self.flight, "p", generation, self.claimed.start, format=self.design.input, fields=fields)
        assert self.design.hosted is not None
        several = self.targets if len(self.targets) > 1 else []
        self.plan = WritePlan(
            self.flight,
            "p",
            generation,
            "c",
            "",
            "" if several else self.targets[0],
            self.design.output,
            Work(read, self.design.hosted),
            several,
        )
        self.writer = StreamWriter(msgspec.json.decode(to_option(self.plan), type=WritePlan))

    def put(self, topic: str, records: list[bytes]) -> None:
        batch = pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["data"])
        self.client.append(topic, [batch.cast(pa.schema([pa.field("data", pa.binary(), nullable=False)]))])

    def epoch(self, number: int, start: Ends, rows: int = 1000) -> Ends:
        """Reads as far as the engine lets it and publishes what came of it."""
        end = self.client.latest(Latest("p", self.claimed.generation, start, rows, 1 << 20)).end
        parts = [asdict(part) for part in reading.ranges(start, end)]
        done = self.writer.write(iter([pa.RecordBatch.from_pylist(parts, schema=RANGES)]))
        self.writer.publish([done], number, end)
        return end


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Callable[..., Many]]:
    made: list[Many] = []

    def make(*args: Any, **given: Any) -> Many:
        made.append(Many(tmp_path, *args, **given))
        return made[-1]

    yield make
    for each in made:
        each.engine.close()
    reading.engine.cache_clear()


def test_a_router_publishes_to_all_its_targets_in_one_epoch(many: Callable[..., Many]) -> None:
    routes = [{"when": ".n > 1", "topic": "big"}, {"when": ".n == 0", "topic": "none"}]
    made = many("router", ["big", "none", "rest"], routes=routes, otherwise="rest", **ANY)
    made.put("in", [b'{"n":%d}' % n for n in (0, 1, 2, 3)] + [b"bad"])
    end = made.epoch(0, made.claimed.start)
    assert made.records("big") == [b'{"n":2}', b'{"n":3}']
    assert made.records("none") == [b'{"n":0}']
    assert made.records("rest") == [b'{"n":1}']
    assert len(made.records("_dead")) == 1
    made.put("in", [b'{"n":9}'])
    made.epoch(1, end)
    assert made.records("big")[2:] == [b'{"n":9}']


def test_a_union_gives_every_source_its_share_and_keeps_its_order(many: Callable[..., Many]) -> None:
    made = many("union", ["a", "b"], sources=[{"topic": "a"}, {"topic": "b"}])
    made.put("a", [b"a%d" % n for n in range(100)])
    made.put("b", [b"b%d" % n for n in range(3)])
    end = made.epoch(0, made.claimed.start, rows=10)
    assert made.records("out") == [b"a0", b"a1", b"a2", b"a3", b"a4", b"b0", b"b1", b"b2"]
    made.epoch(1, end)
    found = made.records("out")
    assert [record for record in found if record.startswith(b"a")] == [b"a%d" % n for n in range(100)]
    assert len(found) == 103


def test_fields_that_nobody_names_can_not_change_their_format() -> None:
    given = config("mask", fields=["email"], input={"format": "json"}, output={"format": "msgpack"})
    with pytest.raises(ConfigError, match="neither format has a schema"):
        designed(given)


def test_added_fields_are_put_into_records_of_no_schema(run: Runs) -> None:
    records = [b'{"n":2,"s":"a","o":{"b":[ 1]}}', b'{"n":3,"o":{"c":0}}']
    made = run("expression", records, add={"twice": ".n * 2", "o.s": "(.s | ascii_upcase)"}, **ANY)
    assert made.records() == [
        b'{"n":2,"s":"a","o":{"b":[ 1],"s":"A"},"twice":4.0}',
        b'{"n":3,"o":{"c":0},"twice":6.0}',
    ]
