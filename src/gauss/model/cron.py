"""Cron expressions of five fields: minute, hour, day of the month, month, day of the week. Times are UTC."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_LONGEST_DAYS = 8 * 366 + 1
"""A 29 February may be eight years away."""


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS)),
    _Field("day of the week", 0, 7, tuple(_DAYS)),
)


class Cron:
    """The times of an expression such as `*/5 8-18 * * MON-FRI`."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        parts = text.split()
        if len(parts) != len(_FIELDS):
            raise ValueError(f"expected five fields in a cron expression, found {len(parts)}")
        found = [_values(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
        self._minutes, self._hours, self._days, self._months, weekdays = found
        self._weekdays = {day % 7 for day in weekdays}
        # As cron does: with both days restricted, either is enough.
        self._either = not parts[2].startswith("*") and not parts[4].startswith("*")
        if self._first_day(datetime.date(2000, 1, 1)) is None:
            raise ValueError("no such day in any year")

    def next_after(self, moment_ms: int) -> int:
        """The first time after a moment, both in Unix ms."""
        start = datetime.datetime.fromtimestamp(moment_ms // 60_000 * 60, datetime.UTC) + datetime.timedelta(minutes=1)
        begin = start.date()
        while (day := self._first_day(begin)) is not None:
            least = (start.hour, start.minute) if day == start.date() else (0, 0)
            for hour in sorted(self._hours):
                for minute in sorted(self._minutes):
                    if (hour, minute) >= least:
                        found = datetime.datetime(day.year, day.month, day.day, hour, minute, tzinfo=datetime.UTC)
                        return round(found.timestamp() * 1000)
            begin = day + datetime.timedelta(days=1)
        raise AssertionError("the constructor has found a day")

    def _first_day(self, day: datetime.date) -> datetime.date | None:
        for _ in range(_LONGEST_DAYS):
            if self._matches(day):
                return day
            day += datetime.timedelta(days=1)
        return None

    def _matches(self, day: datetime.date) -> bool:
        if day.month not in self._months:
            return False
        by_month, by_week = day.day in self._days, day.isoweekday() % 7 in self._weekdays
        return by_month or by_week if self._either else by_month and by_week


def _values(text: str, field: _Field) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            raise ValueError(f"{field.name}: expected a number after / in {part!r}")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = field.least, field.most
        else:
            low = _number(first, field)
            high = _number(last, field) if dash else field.most if slash else low
        if low > high:
            raise ValueError(f"{field.name}: {span!r} ends before it begins")
        found |= set(range(low, high + 1, int(step) if slash else 1))
    return found


def _number(text: str, field: _Field) -> int:
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.least
    if not text.isdecimal() or not field.least <= int(text[:9]) <= field.most:
        raise ValueError(f"{field.name}: expected {field.least} to {field.most}, found {text!r}")
    return int(text)
