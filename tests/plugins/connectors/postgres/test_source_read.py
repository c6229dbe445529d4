"""How rows of a COPY are put together into chunks."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from gauss.plugins.connectors.postgres.source_read import ChunkSize, chunks
from gauss.plugins.processors.pg_source.copy_stream import BLOCK_ROWS, CopyRows


@pytest.mark.parametrize(
    ("most", "sizes"), [(ChunkSize(1_500, 1 << 20), [1_500, 1_500, 1_096]), (ChunkSize(4_096, 6_000), [3_000, 1_096])]
)
def test_a_block_that_is_larger_than_a_chunk_may_be_is_divided(most: ChunkSize, sizes: list[int]) -> None:
    block = CopyRows(np.arange(2 * BLOCK_ROWS, dtype=np.uint8), np.arange(0, 2 * BLOCK_ROWS + 1, 2))
    found = list(chunks(iter([block]), most, lambda _: None))
    assert [len(each) for each in found] == sizes
    assert b"".join(each.body.tobytes() for each in found) == block.body.tobytes()


def test_a_row_that_is_larger_than_a_chunk_may_be_is_one_alone() -> None:
    block = CopyRows(np.zeros(100, np.uint8), np.array([0, 1, 99, 100]))
    assert [len(each) for each in chunks(iter([block]), ChunkSize(10, 50), lambda _: None)] == [1, 1, 1]


def test_blocks_are_joined_up_to_the_size_and_not_kept_while_their_rows_are_emitted() -> None:
    bodies: list[weakref.ref[np.ndarray]] = []

    def blocks() -> Iterator[CopyRows]:
        for _ in range(5):
            block = CopyRows(np.zeros(2 * BLOCK_ROWS, np.uint8), np.arange(0, 2 * BLOCK_ROWS + 1, 2))
            bodies.append(weakref.ref(block.body))
            yield block

    found = chunks(blocks(), ChunkSize(3 * BLOCK_ROWS, 1 << 30), lambda _: None)
    assert len(next(found)) == 3 * BLOCK_ROWS
    assert [body() is None for body in bodies[:2]] == [True, True]  # the third is still that of the loops
    assert len(next(found)) == 2 * BLOCK_ROWS and next(found, None) is None
