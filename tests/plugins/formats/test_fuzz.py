"""Batches of mutated records for the compiled walks: a result for each, never an exception, and the same as one by
one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gauss import registry
from gauss.contracts.format import FormatSpec
from gauss.contracts.format_batch import batched
from gauss.plugins.formats.avro import walk as avro_walk
from gauss.plugins.formats.csv import walk as csv_walk
from gauss.plugins.formats.json import walk as json_walk
from gauss.plugins.formats.msgpack import walk as msgpack_walk
from gauss.plugins.formats.pg_binary import walk as pg_walk
from gauss.plugins.formats.protobuf import walk as protobuf_walk
from helpers.format_conformance import assert_alike
from helpers.format_records import config, row_of

RECORDS = 1_500


def mutate(record: bytes, chance: random.Random) -> bytes:
    """The record, usually with some bytes changed, cut, inserted, duplicated or copied from elsewhere."""
    made = bytearray(record)
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        place = chance.randrange(len(made) + 1)
        match chance.randrange(5):
            case 0 if made:
                made[place % len(made)] = chance.choice([0, 1, 34, 44, 92, 127, 128, 255, chance.randrange(256)])
            case 1:
                del made[place:]
            case 2:
                made[place:place] = chance.randbytes(chance.randrange(1, 4))
            case 3:
                made[place:place] = made[: chance.randrange(len(made) + 1)]
            case 4:
                del made[place : place + chance.randrange(1, 4)]
    return bytes(made)


@pytest.mark.parametrize("name", ["json", "csv", "avro", "protobuf", "msgpack", "pg-binary"])
def test_mutated_records_have_one_verdict_each_and_raise_nothing(name: str, tmp_path: Path) -> None:
    for walk in (csv_walk.WALK, json_walk.WALK, msgpack_walk.WALK, avro_walk.WALK, pg_walk.WALK, protobuf_walk.WALK):
        walk.compile()
    spec = registry.spec(FormatSpec, name)
    format_ = batched(registry.build(spec, spec.validate(config(name, tmp_path))))
    chance = random.Random(name)
    records = [mutate(format_.encode(row_of(format_, chance)), chance) for _ in range(RECORDS)]
    assert_alike(format_, records)
