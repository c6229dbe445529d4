"""Chunks of framed bytes and of arrays: slicing and reading give the same records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Framing, FramingSpec

FRAMINGS: list[tuple[str, dict[str, Any]]] = [
    ("newline", {"delimiter": "\n"}),
    ("newline", {"delimiter": "\r\n"}),
    ("length_prefixed", {"prefix_type": "u16be"}),
    ("length_prefixed", {"prefix_type": "varint"}),
]
RECORDS = [b"a", b"", b"bcd", b"x" * 200, b"e"]


def build(name: str, config: dict[str, Any]) -> Framing:
    spec = registry.spec(FramingSpec, name)
    made: Framing = registry.build(spec, spec.validate(config))
    return made


def framed(framing: Framing, records: list[bytes], ts_ms: int | np.ndarray = 5) -> Chunk:
    return Chunk(framing.joiner().join(pa.array(records, pa.binary())), len(records), ts_ms, framing)


@pytest.mark.parametrize(("name", "config"), FRAMINGS)
def test_slices_of_slices_are_the_records_that_they_name(name: str, config: dict[str, Any]) -> None:
    chunk = framed(build(name, config), RECORDS, np.arange(5))
    middle = chunk.slice(1, 4)
    inner = middle.slice(1, 2)
    assert middle.count == 4
    assert inner.data().to_pylist() == [b"bcd", b"x" * 200]
    assert inner.batch(12).to_pydict() == {"offset": [12, 13], "ts_ms": [2, 3], "data": [b"bcd", b"x" * 200]}
    assert (inner.first_ts(), inner.last_ts()) == (2, 3)
    assert inner.slice(0, 0).data().to_pylist() == []


@pytest.mark.parametrize(("name", "config"), FRAMINGS)
def test_slices_share_the_bytes(name: str, config: dict[str, Any]) -> None:
    chunk = framed(build(name, config), RECORDS)
    part = chunk.slice(2, 3)
    assert isinstance(part.payload, memoryview)
    assert part.payload.obj is memoryview(chunk.payload).obj
    assert chunk.slice(0, 5) is chunk


@pytest.mark.parametrize(("name", "config"), FRAMINGS)
def test_frame_ends_tile_the_payload(name: str, config: dict[str, Any]) -> None:
    framing = build(name, config)
    chunk = framed(framing, RECORDS)
    ends = [0, *chunk.frame_ends().tolist()]
    assert ends[-1] == chunk.nbytes
    pieces = [chunk.payload[a:b] for a, b in pairwise(ends)]
    assert pieces == [framing.joiner().join(pa.array([record], pa.binary())) for record in RECORDS]


@given(st.lists(st.binary(max_size=40), max_size=10), st.data())
def test_any_slice_of_an_array_chunk_is_the_same_as_of_a_framed_one(records: list[bytes], data: st.DataObject) -> None:
    framing = build("length_prefixed", {"prefix_type": "varint"})
    start = data.draw(st.integers(0, len(records)))
    count = data.draw(st.integers(0, len(records) - start))
    array = Chunk(pa.array(records, pa.binary()), len(records), 5)
    for chunk in (array, framed(framing, records)):
        part = chunk.slice(start, count)
        assert part.count == count
        assert part.data().to_pylist() == records[start : start + count]
        assert bytes(part.framed(framing).payload) == framed(framing, records[start : start + count]).payload


def test_framed_keeps_the_payload_only_for_the_same_framing() -> None:
    lines, feeds = build("newline", {"delimiter": "\n"}), build("newline", {"delimiter": "\r\n"})
    chunk = framed(lines, [b"a", b"b"])
    assert chunk.framed(build("newline", {"delimiter": "\n"})) is chunk
    assert chunk.framed(feeds).payload == b"a\r\nb\r\n"
    assert Chunk(pa.array([b"a"], pa.binary()), 1, 0).framed(lines).payload == b"a\n"


def test_bytes_of_an_array_slice_are_its_own_only() -> None:
    chunk = Chunk(pa.array([b"x" * 1000, b"y"], pa.binary()), 2, 0)
    assert chunk.slice(1, 1).nbytes < 100
