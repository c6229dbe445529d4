"""Records as Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gauss.model.batch import (
    RECORD_SCHEMA,
    binary_array,
    gather,
    packed,
    record_batch,
    value_buffer,
    value_lengths,
    value_offsets,
)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=30),
    st.integers(0, 5),
    st.sampled_from([bytes, bytearray, memoryview]),
)
@example([(0, 3), (0, 4), (0, 0)], 0, bytes)  # adjacent
@example([(2, 3), (2, 3), (2, 3)], 0, bytes)  # equal sizes with a prefix
@example([(0, 3), (1, 3), (1, 3)], 1, memoryview)  # equal sizes with a delimiter
@example([(2, 3), (2, 0), (2, 9)], 0, bytearray)  # equal gaps, with a prefix
@example([(0, 3), (1, 0), (1, 9)], 1, bytes)  # equal gaps, with a delimiter
@example([(0, 3), (1, 0), (1, 9)], 0, bytes)  # equal gaps, only between records
@example([(0, 0), (2, 0), (2, 0)], 2, bytes)  # empty records
@example([(0, 3), (1, 0), (5, 9)], 0, bytes)  # sizes and gaps differ
def test_gather_gives_the_named_pieces(shape: list[tuple[int, int]], rest: int, kind: type) -> None:
    """`shape` has the gap before each record, and its length."""
    total = sum(gap + length for gap, length in shape) + rest
    buffer = bytes(np.arange(total) % 251)
    ends = np.cumsum([gap + length for gap, length in shape], dtype=np.int64)
    starts = ends - np.array([length for _, length in shape], dtype=np.int64)
    found = gather(kind(buffer), starts, ends)
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == [buffer[a:b] for a, b in zip(starts, ends, strict=True)]
    assert value_lengths(found).tolist() == (ends - starts).tolist()
    assert bytes(packed(found)) == b"".join(found.to_pylist())


def test_gather_does_not_copy_records_that_touch() -> None:
    buffer = b"__abcdef"
    found = gather(buffer, np.array([2, 5]), np.array([5, 8]))
    assert found.to_pylist() == [b"abc", b"def"]
    assert found.buffers()[2].address == pa.py_buffer(buffer).address


def test_a_batch_above_two_gibibytes_is_refused() -> None:
    with pytest.raises(ValueError, match="take fewer records"):
        binary_array(b"", np.array([0, 2**31]))


def test_value_offsets_follow_slices() -> None:
    data = pa.array([b"a", b"bb", b"ccc"], pa.binary()).slice(1)
    assert value_offsets(data).tolist() == [1, 3, 6]
    assert bytes(value_buffer(data)[1:]) == b"bbccc"
    assert bytes(packed(data)) == b"bbccc"
    assert value_lengths(data).tolist() == [2, 3]


@pytest.mark.parametrize("data", [pa.array([], pa.binary()), pa.array([b"a"], pa.binary()).slice(1)])
def test_an_empty_array_has_no_bytes(data: pa.BinaryArray) -> None:
    assert value_lengths(data).tolist() == []
    assert bytes(packed(data)) == b""


def test_record_batch_numbers_records_and_spreads_one_time() -> None:
    data = pa.array([b"a", b"b"], pa.binary())
    batch = record_batch(7, 1000, data)
    assert batch.schema == RECORD_SCHEMA
    assert batch.to_pydict() == {"offset": [7, 8], "ts_ms": [1000, 1000], "data": [b"a", b"b"]}
    assert record_batch(0, np.array([5, 6]), data)["ts_ms"].to_pylist() == [5, 6]
