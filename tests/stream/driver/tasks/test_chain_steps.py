"""Chains in standing tasks against a real engine give the same results as their steps in tasks of their own."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.stream.driver.planning.refs import FormatRef, OutsideTarget
from gauss.stream.driver.tasks import locations, outbox, outside_fields, reading
from helpers.chain_worlds import STEPS, config, data
from helpers.keyed_records import headers_of, key_of, keyed_batch

VALUES = {
    "s": st.one_of(st.none(), st.sampled_from(["a", "no", "7", "é", 'q"', ""]), st.sampled_from(["a", "a"])),
    "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 5)),
    "d": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0, 2, 1e308, 0.5])),
    "small": st.integers(0, 255),
}
GOOD = st.fixed_dictionaries({key: VALUES[key] for key in ("s", "n", "d", "small")})
RECORD = st.one_of(
    st.fixed_dictionaries({}, optional=VALUES).map(lambda row: json.dumps(row).encode()),
    st.sampled_from([b"", b"[]", b"\xff", b'{"n":1.5}', b'{"n":1,"d":"x"}', b'{"n":2,"small":256}', b'{"n":1,"s":3}']),
)
BATCH = st.one_of(
    st.lists(RECORD, min_size=10, max_size=40),
    st.lists(GOOD.map(lambda row: json.dumps(row).encode()), min_size=10, max_size=40),
)


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("least_passed", [locations.LEAST_PASSED, 0], ids=["sent", "named"])
@pytest.mark.parametrize("inline_bytes", [outbox.INLINE_BYTES, 800])
def test_a_chain_gives_the_same_as_its_steps_one_by_one(
    make_world: Any, inline_bytes: int, least_passed: int, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "INLINE_BYTES", inline_bytes)  # 800: some stages are sent before the publish
    monkeypatch.setattr(locations, "LEAST_PASSED", least_passed)  # 0: records are named instead of sent
    world = make_world(config(storage=storage))
    count = len(STEPS)
    fused = world.task(*(f"f{place}" for place in range(count)))
    steps = [world.task(f"u{place}") for place in range(count)]

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(BATCH)
    def property_(records: list[bytes]) -> None:
        world.send("in", records)
        for task in (fused, *steps):
            task.epoch()
            assert task.granted() == {}
        for place in range(count):
            assert world.records(f"f.{place}") == world.records(f"u.{place}"), place
        assert world.letters("f") == world.letters("u")

    property_()
    assert all(world.records(f"f.{place}") for place in range(count))
    assert len({letter[0] for letter in world.letters("f")}) > 2
    rows = {row["name"]: row for row in world.client.command("processors.ls", {})["processors"]}
    for place in range(count):
        alone, within = rows[f"u{place}"], rows[f"f{place}"]
        for key in ("records", "dead", "behind"):
            assert within[key] == alone[key], (place, key)


def test_a_stage_that_is_sent_ahead_takes_the_one_whose_rows_it_names_with_it(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(config(STEPS[:2]))
    chain = world.task("f0", "f1")
    records = [b"{}"] * 100 + [b'{"s":"no"}']  # the row numbers are larger than such rows; the last record is dropped
    world.send("in", records)
    chain.run()  # from now on the task knows that the head passes records unchanged
    world.send("in", records)
    monkeypatch.setattr(outbox, "INLINE_BYTES", 1_530)
    done = chain.hold(chain.granted())
    assert done.outbox.inline == []
    done.publish()
    assert data(world, "f.0") == records * 2
    assert data(world, "f.1") == records[:100] * 2


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_what_passes_from_a_topic_unchanged_is_named_and_not_sent(make_world: Any, storage: str) -> None:
    world = make_world(config(STEPS[:2], storage=storage))
    chain = world.task("f0", "f1")
    records = [b'{"n":%d,"s":"%s","small":0}' % (n, b"no" if n % 2 else b"x" * 100) for n in range(4, 1_004)]
    world.send("in", records)
    done = chain.hold(chain.granted())
    whole, some = done.outbox.inline
    assert whole.head.passed is not None and whole.head.whole and whole.data == b""
    assert some.head.passed is not None and not some.head.whole
    with pa.ipc.open_stream(some.data) as reader:
        assert reader.read_all()["offset"].to_pylist() == list(range(0, 1_000, 2))
    done.publish()
    assert data(world, "f.0") == records
    assert data(world, "f.1") == records[::2]


def test_what_a_topic_that_overwrites_gives_is_sent(make_world: Any) -> None:
    world = make_world(config(STEPS[:1], storage_config={"storage_size": 1_000, "write_full": "overwrite"}))
    chain = world.task("f0")
    records = [b'{"n":%d,"s":"%s"}' % (n, b"x" * 100) for n in range(4, 1_004)]
    world.send("in", records)
    done = chain.hold(chain.granted())
    world.send("in", records)  # the records of the epoch are overwritten
    done.publish()
    assert data(world, "f.0") == records


def test_what_a_step_passes_on_whole_is_named_and_not_sent(make_world: Any) -> None:
    world = make_world(config(STEPS[:2]))
    chain = world.task("f0", "f1")
    records = [b'{"n":%d}' % number for number in range(4, 104)]
    for _ in range(2):  # in the first round it is not known that the head passes records unchanged
        world.send("in", records)
        done = chain.hold(chain.granted())
        done.publish()
    first, second = done.outbox.inline
    assert second.head.parent == first.head.stage and second.head.whole and second.data == b""
    assert data(world, "f.0") == data(world, "f.1") == records * 2


def test_records_that_pass_a_chain_unchanged_keep_their_keys_and_headers(make_world: Any) -> None:
    world = make_world(config(STEPS[:3]))
    (chain,) = world.task("f0", "f1", "f2").loop._chains.values()
    rows = [{"n": n, "s": "no" if n == 4 else "a", "d": 1.5, "small": 1} for n in range(6)]
    records = keyed_batch(*(json.dumps(row).encode() for row in rows), first=10)
    chain.epoch.begin()
    chain.head.read(records, reading.Range("in", 1, 10, 16), [])
    kept = {topic: pa.Table.from_batches(found.batches) for topic, found in chain.epoch.kept.items()}
    for topic, left in (("f.0", [10, 11, 12, 14, 15]), ("f.1", [10, 11, 12, 15])):
        assert kept[topic].column("ts_ms").to_pylist() == [10 * n for n in left]
        assert kept[topic].column("key").to_pylist() == [key_of(n) for n in left]
        assert kept[topic].column("headers").to_pylist() == [headers_of(n) for n in left]
    assert kept["f.2"].schema.names == ["ts_ms", "data"]  # new records, made of several fields
    sent = outbox.Outbox(world.client).of("f0", chain.generation)
    chain.epoch.stage(sent)
    for each in filter(None, (inline.data for inline in sent.inline)):
        with pa.ipc.open_stream(each) as reader:
            assert {"key", "headers"}.isdisjoint(reader.schema.names)


@pytest.mark.parametrize(
    ("target", "keys"),
    [
        (OutsideTarget(), [key_of(n) for n in (10, 11, 13)]),
        (OutsideTarget(key="n"), [b"1", b"2", b"4"]),
        (OutsideTarget(key="s", format=FormatRef("json")), [b"a", None, b"7"]),
    ],
)
def test_records_that_pass_to_an_outside_system_have_a_key(
    make_world: Any, target: OutsideTarget, keys: list[bytes | None]
) -> None:
    rows = [{"n": n, "s": s} for n, s in ((1, "a"), (2, 1.5), (3, "b"), (4, 7))]
    kept = passed_outside(make_world, target, *rows)
    assert kept.column("key").to_pylist() == keys
    assert kept.column("headers").to_pylist() == [headers_of(n) for n in (10, 11, 13)]


def test_field_chooses_the_partition_or_the_record_is_a_dead_letter(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_fields, "task_log", lambda *_: Mock(partitions=lambda: 3))
    target = OutsideTarget(partition="p", format=FormatRef("json"))
    rows = [{"s": "a", "n": 1, **given} for given in ({"p": 2}, {"p": 3}, {}, {"p": "1"}, {"p": 0})]
    letters: list[Any] = []
    kept = passed_outside(make_world, target, *rows, letters=letters)
    assert kept.column("partition").to_pylist() == [2, 0]
    assert kept.column("key").to_pylist() == [key_of(10), key_of(14)]
    assert [(each.processor, each.reason, json.loads(each.data)) for each in letters] == [
        ("f0", "bad_partition", row) for row in rows[1:4]
    ]
    assert letters[0].detail == "p: expected a partition, 0 to 2, found 3"


def passed_outside(
    make_world: Any, target: OutsideTarget, *rows: dict[str, Any], letters: list[Any] | None = None
) -> pa.Table:
    """What a filter of `.n != 3` writes to a topic in an outside system."""
    (chain,) = make_world(config(STEPS[:1])).task("f0").loop._chains.values()
    chain.head.step = msgspec.structs.replace(chain.head.step, outside={"f.0": target})
    chain.epoch.begin()
    records = keyed_batch(*(json.dumps(row).encode() for row in rows), first=10)
    chain.head.read(records, reading.Range("in", 1, 10, 10 + len(rows)), [])
    if letters is not None:
        letters += chain.epoch.letters
    return pa.Table.from_batches(chain.epoch.kept["f.0"].batches)
