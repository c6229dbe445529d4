"""Stateless processors as hosted tasks against a real engine, without a JVM: what is published, and what is dead."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.model.errors import ConfigError
from gauss.stream.driver import reading
from stream.driver.test_hosted import Hosted, config, designed

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


def test_fields_that_nobody_names_can_not_change_their_format() -> None:
    given = config("mask", fields=["email"], input={"format": "json"}, output={"format": "msgpack"})
    with pytest.raises(ConfigError, match="neither format has a schema"):
        designed(given)
