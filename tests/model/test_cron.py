"""Times of cron expressions."""

from __future__ import annotations

import datetime

import pytest

from gauss.model.cron import Cron
from gauss.model.units import interval


def ms(text: str) -> int:
    return round(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("cron", "after", "found"),
    [
        ("* * * * *", "2026-01-31T12:00:00", "2026-01-31T12:01:00"),
        ("* * * * *", "2026-01-31T12:00:59.999", "2026-01-31T12:01:00"),
        ("*/15 * * * *", "2026-01-31T12:46:00", "2026-01-31T13:00:00"),
        ("5/20 * * * *", "2026-01-31T12:00:00", "2026-01-31T12:05:00"),
        ("0 8-18/5 * * *", "2026-01-31T08:00:00", "2026-01-31T13:00:00"),
        ("30 4 1,15 * *", "2026-01-15T04:30:00", "2026-02-01T04:30:00"),
        ("0 0 29 2 *", "2025-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 * * MON-FRI", "2026-01-30T00:00:00", "2026-02-02T00:00:00"),
        ("0 0 * * 7", "2026-01-30T00:00:00", "2026-02-01T00:00:00"),
        ("0 0 * JUL sun", "2026-01-30T00:00:00", "2026-07-05T00:00:00"),
        ("0 0 13 * 5", "2026-01-30T00:00:00", "2026-02-06T00:00:00"),
        ("59 23 31 12 *", "2026-12-31T23:59:00", "2027-12-31T23:59:00"),
    ],
)
def test_the_next_time_is_the_first_one_behind_a_moment(cron: str, after: str, found: str) -> None:
    assert Cron(cron).next_after(ms(after)) == ms(found)


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("60 * * * *", "minute: expected 0 to 59, found '60'"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of the week"),
        ("* * * * MOON", "day of the week"),
        ("5-1 * * * *", "ends before it begins"),
        ("*/0 * * * *", "after /"),
        ("1,, * * * *", "minute"),
        ("0 0 31 2 *", "no such day"),
    ],
)
def test_a_time_that_never_comes_is_refused_with_the_reason(cron: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        interval(cron)


def test_an_interval_is_above_zero() -> None:
    with pytest.raises(ValueError, match="above 0"):
        interval("0s")
