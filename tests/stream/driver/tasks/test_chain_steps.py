"""Chains in standing tasks against a real engine give the same results as their steps in tasks of their own."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.stream.driver.tasks import locations, outbox, reading
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
