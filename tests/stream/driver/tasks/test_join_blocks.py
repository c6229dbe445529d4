"""Joined pairs found block by block equal those of plain Python, wherever batches end; null keys, distant times, keys
of any type."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.clients.engine.positions import Timing
from gauss.model.names import BEAT, EVENT, EVENT_MS
from gauss.plugins.processors import windowing
from gauss.stream.driver.planning.reads import BLOCK, BLOCKS, FIRST, LAST, NUMBER, ORDERED, ReadBlocks, TimePlan
from gauss.stream.driver.planning.refs import BesideRef, FieldRef, FormatRef, TransformRef, encode_fields
from gauss.stream.driver.planning.writes import WritePairs
from gauss.stream.driver.tasks.event_time_reader import _marker
from gauss.stream.driver.tasks.join_blocks import MOST_BYTES, OTHER, blocks, paired
from gauss.stream.driver.tasks.reading import Range

WINDOW, SLOT = 500, 1000
PLACES = (windowing.FIRST, windowing.LAST)
JSON = FormatRef("json")
CONFIG = {
    "input": {"format": "json"},
    "join_topic": "others",
    "join_key": "id",
    "join_fields": ["n"],
    "join_prefix": "o_",
    "window": "500ms",
}
FIELDS = [FieldRef("id", "json"), FieldRef("n", "json")]
KEYS = st.sampled_from([None, '"a"', '"7"', "7", '"b"', '"\\u0061"', "true", "1.5"])
TIMES = st.integers(0, 3000) | st.sampled_from([-(10**13), 10**13, 10**13 + 400])
SIDE = st.lists(st.tuples(KEYS, TIMES), max_size=12)


def plan(fields: list[FieldRef], *, keep_data: bool) -> ReadBlocks:
    time = TimePlan("", Timing(0, 0, 1, True, None))
    return ReadBlocks("", "p", 1, JSON, encode_fields(fields), keep_data, start={}, time=time, slot_ms=SLOT)


WORK = WritePairs(
    "",
    "p",
    1,
    checkpoint="",
    checkpoint_dir="",
    series="c",
    left=plan(FIELDS[:1], keep_data=True),
    right=plan(FIELDS, keep_data=False),
    transform=TransformRef("window-join", CONFIG, JSON, None, None, BesideRef("others", JSON)),
)


def in_blocks(read: ReadBlocks, topic: str, start: int, rows: list[tuple[str | None, int]]) -> pa.RecordBatch:
    """The blocks of a range; `n` of a record is its offset."""
    offsets = range(start, start + len(rows))
    columns: dict[str, pa.Array] = {
        "id": pa.array([key for key, _ in rows], pa.large_string()),
        "n": pa.array([str(n) for n in offsets], pa.large_string()),
        "_ts_ms": pa.array([time + n for n, (_, time) in zip(offsets, rows, strict=True)], pa.int64()),
        "_data": pa.array([json.dumps({"l": n}).encode() for n in offsets], pa.binary()),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    part = Range(topic, 1, start, start + len(rows))
    made = [
        blocks(read, part, piece, pa.array([time for _, time in rows[at : at + 5]], pa.int64()), 100 * at)
        for at in range(0, len(rows), 5)
        if (piece := batch.slice(at, 5))
    ]
    return pa.Table.from_batches([each.cast(BLOCKS) for each in made], BLOCKS).combine_chunks()


def near(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """The condition of Spark's join."""
    apart = abs((left[EVENT] - right[EVENT]).total_seconds()) * 1000 <= WINDOW + SLOT
    return bool(apart and right[FIRST] <= left[LAST] + WINDOW and left[FIRST] <= right[LAST] + WINDOW)


def text(key: str | None) -> str | None:
    found = None if key is None else json.loads(key)
    return None if isinstance(found, bool | float) or found is None else str(found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=4))
def test_every_pair_comes_out_once_wherever_batches_end(batches: list[tuple[Any, Any]]) -> None:
    kept: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    seen: tuple[list[Any], list[Any]] = ([], [])
    found: Counter[tuple[int, int, int]] = Counter()
    for batch in batches:
        new = [
            in_blocks(read, topic, len(seen[side]), batch[side]).to_pylist()
            for side, (read, topic) in enumerate([(WORK.left, "mine"), (WORK.right, "others")])
        ]
        met = [(a, b) for a in new[0] for b in kept[1] + new[1] if near(a, b)]
        met += [(a, b) for a in kept[0] for b in new[1] if near(a, b)]
        rows = [
            {BEAT: False, NUMBER: a[NUMBER], BLOCK: a[BLOCK], OTHER + NUMBER: b[NUMBER], OTHER + BLOCK: b[BLOCK]}
            for a, b in met
        ]
        rows.append({BEAT: True, NUMBER: None, BLOCK: None, OTHER + NUMBER: None, OTHER + BLOCK: None})
        kinds = {BEAT: pa.bool_(), NUMBER: pa.string(), BLOCK: pa.binary()}
        schema = pa.schema([*kinds.items(), (OTHER + NUMBER, pa.string()), (OTHER + BLOCK, pa.binary())])
        for made in paired(WORK, [pa.RecordBatch.from_pylist(rows, schema=schema)]):
            own = [json.loads(data)["l"] for data in made.column("_rest").to_pylist()]
            other = [int(each) for each in made.columns[-1].to_pylist()]
            found.update(zip(own, other, made.column("_ts_ms").to_pylist(), strict=True))
        for side in (0, 1):
            kept[side].extend(new[side])
            seen[side].extend(batch[side])
    wanted = Counter(
        (n, m, max(t + n, u + m))
        for n, (key, t) in enumerate(seen[0])
        for m, (other_key, u) in enumerate(seen[1])
        if text(key) is not None and text(key) == text(other_key) and abs(t - u) <= WINDOW
    )
    assert found == wanted


def test_block_holds_records_of_one_slot_of_time_and_is_named_by_its_range() -> None:
    rows: list[tuple[str | None, int]] = [('"a"', 1500), ('"b"', 100), ('"c"', 1001), ('"d"', 999)]
    made = in_blocks(WORK.right, "others", 30, rows)
    assert [(row[FIRST], row[LAST]) for row in made.to_pylist()] == [(100, 999), (1001, 1500)]
    assert [row[NUMBER] for row in made.to_pylist()] == ["others 1 30 0", "others 1 30 1"]
    held = [pa.ipc.read_record_batch(row.as_buffer(), WORK.right.block_schema()) for row in made.column(BLOCK)]
    assert [each.column("id").to_pylist() for each in held] == [['"b"', '"d"'], ['"a"', '"c"']]
    assert held[1].column(EVENT_MS).to_pylist() == [1500, 1001]


def test_a_heartbeat_among_partials_of_a_window_leaves_their_columns_alone() -> None:
    partials = pa.schema(
        [(EVENT, pa.timestamp("us", "UTC")), (BEAT, pa.bool_()), *((name, ORDERED) for name in PLACES)]
    )
    beat = _marker(partials, 1_000)
    assert [beat.column(name).type for name in PLACES] == [ORDERED, ORDERED]
    assert [beat.column(name).null_count for name in PLACES] == [1, 1]


def test_blocks_of_large_records_hold_few_of_them() -> None:
    columns = {
        "id": pa.array(['"a"'] * 6),
        "n": pa.array(["1" * (MOST_BYTES * 2 // 5)] * 6),
        "_ts_ms": pa.array(range(6)),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    made = blocks(WORK.right, Range("others", 1, 0, 6), batch, pa.array(range(6)), 0)
    assert [(row[FIRST], row[LAST]) for row in made.to_pylist()] == [(0, 1), (2, 3), (4, 5)]
