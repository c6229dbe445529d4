"""The window of an external table's newest rows."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from gauss.api.newest_rows import MOST_ROWS, window_start

NOW = 1_800_000_000_000
YEAR = 31_536_000_000


@pytest.mark.parametrize(
    "times",
    [
        pytest.param([], id="empty"),
        pytest.param(list(range(NOW - 900, NOW)), id="few"),
        pytest.param(list(range(NOW - 3_000_000, NOW, 10)), id="steady"),
        pytest.param(sorted([*range(NOW - 20_000, NOW)] * 20), id="twenty per millisecond"),
        pytest.param(list(range(NOW - 5 * YEAR, NOW - 4 * YEAR, YEAR // 100_000)), id="years ago"),
        pytest.param([*range(10), *range(NOW - 7_000, NOW - 1_000), *range(NOW, NOW + 6_000)], id="future"),
        pytest.param(list(range(NOW + YEAR, NOW + YEAR + 20_000)), id="all in the future"),
        pytest.param([*([5] * 10_000), NOW], id="old burst behind one row"),
    ],
)
def test_window_holds_the_newest_rows_by_few_reads(times: list[int]) -> None:
    asked: list[int] = []

    def count(start: int) -> int:
        asked.append(start)
        return min(len(times) - bisect_left(times, start), MOST_ROWS + 1)

    start = window_start(count, 50, NOW)
    held = len(times) - bisect_left(times, start)
    alike = times.count(start)
    assert min(50, len(times)) <= held
    assert held <= MOST_ROWS or held - alike < 50, "more rows than are read, though they differ in time"
    assert len(asked) < 60
