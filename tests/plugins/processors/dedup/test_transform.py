"""The pre-aggregation of dedup in readers: only the first record of each key in a batch passes, for keys of any
type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss.model.names import EVENT, EVENT_MS
from gauss.plugins.processors.dedup.spec import DedupConfig
from gauss.plugins.processors.dedup.transform import KEY, Dedup


def partial(keys: dict[str, pa.Array], *, key: list[str] | None = None) -> pa.RecordBatch:
    count = len(next(iter(keys.values())))
    made = Dedup(DedupConfig.model_validate({"key": key, "within": "1m", "input": {"format": "json"}}))
    data = [f"record {n % 2}".encode() for n in range(count)]
    given = {**keys, "_ts_ms": range(count), "_data": data, EVENT_MS: range(1000, 1000 + count)}
    found = made.partial(pa.RecordBatch.from_pydict(given))
    kinds = made.partial_schema(pa.schema([]))
    return found.cast(pa.schema([kinds.field(name) for name in found.schema.names]))


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "a", "c", "b"],
        [1, 2, 1, 3, 2],
        [1.5, 2.5, 1.5, float("inf"), 2.5],
        [b"\xff", b"", b"\xff", b"x", b""],
        [True, False, True, True, False],
        [[1, 2], [], [1, 2], [2, 1], []],
        [{"a": 1}, {"a": 2}, {"a": 1}, {"a": None}, {"a": 2}],
    ],
)
def test_first_of_each_key_goes_on_in_the_order_of_arrival(values: list[Any]) -> None:
    found = partial({"$.id": pa.array(values)}, key=["id"])
    firsts = [n for n, value in enumerate(values) if value not in values[:n]]
    assert found.column("_ts_ms").to_pylist() == firsts
    assert len({tuple(row[name] for name in KEY) for row in found.to_pylist()}) == len(firsts)
    assert found.column(EVENT).cast(pa.int64()).to_pylist() == [1000 * (1000 + n) for n in firsts]


def test_several_fields_are_equal_only_together() -> None:
    keys = {"a": pa.array(["x", "xy", "x", "x"]), "b": pa.array(["yz", "z", "yz", "q"])}
    assert partial(keys, key=["a", "b"]).column("_ts_ms").to_pylist() == [0, 1, 3]


def test_without_a_key_the_bytes_are_compared() -> None:
    found = partial({"ignored": pa.array([1, 2, 3, 4])})
    assert found.column("_data").to_pylist() == [b"record 0", b"record 1"]
