"""The ring: small chunks are merged, trimmed ones are freed."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.chunk import Chunk
from gauss.plugins.storages.memory.ring import Ring
from helpers.cases import cases
from helpers.logs import lines, numbered, open_log, put, records


class WatchedChunk(Chunk):
    """A chunk whose deletion can be observed."""

    __slots__ = ("__weakref__",)


def _ring() -> Ring:
    return cast(Ring, open_log("memory", Path("unused")))


def test_ring_of_single_records_holds_few_chunks() -> None:
    ring = _ring()
    for number in range(5_000):
        put(ring, numbered(number, 1, ts_ms=number))
    assert len(ring._blocks.starts) < 200
    assert [record[:2] for record in records(ring)] == [(number, number) for number in range(5_000)]


def test_trimmed_chunk_leaves_memory_at_once() -> None:
    ring, chunk = _ring(), lines(b"x" * 10_000)
    watched = WatchedChunk(chunk.payload, 1, 1, chunk.framing)
    put(ring, watched, lines(b"y"))
    gone = weakref.ref(watched)
    del watched, chunk
    ring.trim(1)
    gc.collect()
    assert gone() is None


def test_reader_keeps_the_chunks_that_it_took() -> None:
    ring = _ring()
    put(ring, numbered(0, 5))
    taken = ring.chunks(0, 5, 100)
    put(ring, numbered(5, 5))
    ring.trim(10)
    assert bytes(taken[0].chunk.payload) == b"r0\nr1\nr2\nr3\nr4\n"


STEPS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 40), st.booleans()), min_size=60, max_size=200)


@settings(max_examples=cases(40), deadline=None)
@given(STEPS)
def test_joins_and_trims_change_no_record(steps: list[tuple[int, int, bool]]) -> None:
    ring, written = _ring(), 0
    for count, keep, undo in steps:
        if undo:
            ring.append(lines(b"gone", ts_ms=written), 1)
            ring.rollback()
        put(ring, numbered(written, count, ts_ms=written))
        written += count
        if keep == 0:
            ring.trim(written - 90)
        assert ring.end == written
        assert ring.bytes_from(written) == 0
    found = records(ring)
    assert [(offset, record) for offset, _, record in found] == [
        (number, b"r%d" % number) for number in range(ring.floor, written)
    ]
    assert ring.bytes_from(ring.floor) == sum(len(record) + 1 for _, _, record in found)
