"""Pairs of the same key and about the same time, found by sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

MOST_PAIRS = 262_144
"""At a time: records of one busy key make far more pairs than there are records."""


def near_pairs(
    keys: pa.Array, times: pa.Array, other_keys: pa.Array, other_times: pa.Array, window: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The places of every two that have the same key and are at most `window` apart, some at a time; a null key meets
    none."""
    codes = pa.chunked_array([keys, other_keys]).combine_chunks().dictionary_encode().indices
    code = codes.fill_null(-1).to_numpy().astype(np.int64)
    mine, theirs = np.flatnonzero(code[: len(keys)] >= 0), np.flatnonzero(code[len(keys) :] >= 0)
    time, other_time = times.to_numpy()[mine], other_times.to_numpy()[theirs]
    # Times as ranks: a key and a time are one number then, however far apart the times are.
    known = np.unique(other_time)
    base = len(known) + 1
    places = code[len(keys) :][theirs] * base + np.searchsorted(known, other_time)
    order = np.argsort(places, kind="stable")
    places = places[order]
    mine_code = code[: len(keys)][mine] * base
    first = np.searchsorted(places, mine_code + np.searchsorted(known, time - window, "left"), "left")
    stop = np.searchsorted(places, mine_code + np.searchsorted(known, time + window, "right"), "left")
    count = stop - first
    ends = np.cumsum(count)
    at = 0
    while at < len(mine):
        before = int(ends[at - 1]) if at else 0
        upto = max(at + 1, int(np.searchsorted(ends, before + MOST_PAIRS, "right")))
        rows = np.repeat(np.arange(at, upto), count[at:upto])
        within = np.arange(before, before + len(rows)) - (ends - count)[rows]
        yield mine[rows], theirs[order[first[rows] + within]]
        at = upto
