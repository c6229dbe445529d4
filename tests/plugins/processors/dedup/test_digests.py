"""Digests of keys equal the reference, are equal exactly for equal rows, and identify first occurrences."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.plugins.processors.dedup.digests import digests_of, firsts
from helpers.cases import cases


def test_digests_are_those_of_murmur3() -> None:
    texts = [b"", b"hello", b"The quick brown fox jumps over the lazy dog"]
    found = digests_of([pa.array(texts, pa.binary())])
    assert [f"{one:016x}{two:016x}" for one, two in found.tolist()] == [
        "0" * 32,
        "cbd8a7b341bd9b025b1e906a48ae1d19",
        "e34bbc7bbc071b6c7a433ca9c49a9347",
    ]


TEXTS = st.binary(max_size=3) | st.binary(max_size=40)


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=60), st.integers(0, 3))
def test_rows_have_the_same_digest_exactly_when_they_are_equal(rows: list[tuple[bytes, bytes]], skip: int) -> None:
    columns = [pa.array([row[side] for row in rows], pa.binary()).slice(skip) for side in (0, 1)]
    rows = rows[skip:]
    found = digests_of(columns)
    assert len({tuple(pair) for pair in found.tolist()}) == len(set(rows))
    assert firsts(found).tolist() == [row not in rows[:at] for at, row in enumerate(rows)]
