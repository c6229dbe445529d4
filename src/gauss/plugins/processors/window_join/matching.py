"""Pairs of the same key and about the same time, found by sorting."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def near_pairs(
    keys: pa.Array, times: pa.Array, other_keys: pa.Array, other_times: pa.Array, window: int
) -> tuple[np.ndarray, np.ndarray]:
    """The places of every two that have the same key and are at most `window` apart; a null key meets none."""
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
    rows = np.repeat(np.arange(len(mine)), count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    return mine[rows], theirs[order[first[rows] + within]]
