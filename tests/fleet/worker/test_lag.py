"""How long ago a partition's end passed an offset, against all looks at the end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.fleet.worker.lag import MOST_LOOKS, PassedEnds
from helpers.cases import cases


def test_it_is_the_time_since_the_first_look_at_which_the_end_was_beyond_the_offset() -> None:
    passed = PassedEnds()
    for now, end in ((0.0, 10), (1.0, 20), (2.0, 20), (3.0, 30)):
        passed.see(end, now)
    assert passed.behind(10, 5.0) == 4.0
    assert passed.behind(19, 5.0) == 4.0
    assert passed.behind(20, 5.0) == 2.0


def test_it_is_unknown_if_the_end_was_beyond_before_the_first_look_or_is_not_yet() -> None:
    passed = PassedEnds()
    assert passed.behind(0, 1.0) is None
    passed.see(10, 0.0)
    assert passed.behind(5, 1.0) is None
    assert passed.behind(10, 1.0) is None
    passed.see(20, 2.0)
    assert passed.behind(5, 3.0) is None
    assert passed.behind(20, 3.0) is None


@settings(max_examples=cases(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), min_size=1, max_size=60))
def test_it_equals_a_search_through_all_looks(steps: list[tuple[int, int]]) -> None:
    """Each step: how far the end moves, and the share of the waiting records that is committed."""
    passed, looks, end, offset = PassedEnds(), list[tuple[float, int]](), 0, 0
    for now, (moved, share) in enumerate(steps):
        end += moved
        passed.see(end, float(now))
        looks.append((float(now), end))
        offset += (end - offset) * share // 100
        beyond = [at for at, seen in looks if seen > offset]
        expected = None if not beyond or looks[0][1] > offset else now - beyond[0]
        assert passed.behind(offset, float(now)) == expected


def test_a_long_time_without_a_commit_is_kept_in_bounded_memory_and_less_exactly() -> None:
    passed, count = PassedEnds(), 20 * MOST_LOOKS
    for now in range(count):
        passed.see(now, float(now))
    assert len(passed._looks) <= MOST_LOOKS
    for offset in (0, count // 3, count // 2, count - 200):
        found = passed.behind(offset, float(count))
        assert found is not None
        assert 0 <= count - offset - 1 - found <= 2 * count / MOST_LOOKS + 1
    assert passed.behind(count - 1, float(count)) is None
    passed.see(count, count + 1.0)
    passed.see(count + 1, count + 2.0)
    assert passed.behind(count, count + 2.0) == 0.0, "as exact as at first once all is committed"
