"""Pairs by key and time: complete, and in bounded portions for a frequent key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gauss.plugins.processors.window_join import matching


def test_pairs_of_one_busy_key_come_in_parts_that_together_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_PAIRS", 1000)
    keys, times = pa.array(["hot"] * 300 + ["cold", None]), pa.array(np.arange(302))
    parts = list(matching.near_pairs(keys, times, keys, times, 50))
    assert len(parts) > 20 and max(len(mine) for mine, _ in parts) <= 1000
    found = [(int(m), int(o)) for mine, others in parts for m, o in zip(mine, others, strict=True)]
    wanted = [(m, o) for m in range(300) for o in range(max(0, m - 50), min(300, m + 51))] + [(300, 300)]
    assert sorted(found) == sorted(wanted)


def test_a_record_with_more_pairs_than_a_part_may_hold_is_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_PAIRS", 3)
    mine, others = pa.array(["k", "k"]), pa.array(["k"] * 7)
    parts = list(matching.near_pairs(mine, pa.array([0, 0]), others, pa.array([0] * 7), 0))
    assert [sorted(theirs.tolist()) for _, theirs in parts] == [list(range(7))] * 2
