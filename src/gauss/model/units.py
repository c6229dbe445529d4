"""Durations, sizes and moments as people write them: `1m`, `64MiB`, `2026-01-31T12:00:00Z`, `-5m`."""

from __future__ import annotations

import datetime
import re

_MOST_DIGITS = 18
"""More than any time or size has; with hundreds a number is not finite."""
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB|TiB)$")
_SIZE_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def duration_ms(value: object) -> int:
    """Milliseconds of `"1m"` and the like; raises ValueError with what is expected."""
    if isinstance(value, str) and (found := _DURATION.match(value.strip())) and len(found[1]) <= _MOST_DIGITS:
        return round(float(found[1]) * _DURATION_MS[found[2]])
    raise ValueError('expected a duration such as "250ms", "10s", "1m", "2h" or "7d"')


def moment(value: object) -> int | str:
    """A time as unix ms; one that counts from now (`now`, `-5m`) stays text, since now is when it is asked for."""
    if isinstance(value, datetime.datetime):
        return round(_in_utc(value).timestamp() * 1000)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, datetime.date):
        value = value.isoformat()
    text = value.strip() if isinstance(value, str) else ""
    try:
        if text == "now" or text.startswith("-"):
            moment_ms(text, 0)
            return text
        if text.isdecimal() and len(text) <= _MOST_DIGITS:
            return int(text)
        return moment(datetime.datetime.fromisoformat(text))
    except ValueError:
        raise ValueError(
            'expected unix milliseconds, an ISO time such as "2026-01-31T12:00:00Z", "now", '
            'or a duration before now such as "-5m"'
        ) from None


def moment_ms(value: int | str, now_ms: int) -> int:
    """Unix ms of a moment, at a certain time."""
    if isinstance(value, int):
        return value
    return now_ms if value == "now" else now_ms - duration_ms(value.removeprefix("-"))


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)


def size_bytes(value: object) -> int:
    """Bytes of `"64MiB"`, or a bare count of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (found := _SIZE.match(value.strip())) and len(found[1]) <= _MOST_DIGITS:
        return round(float(found[1]) * _SIZE_BYTES[found[2]])
    raise ValueError('expected bytes as a number, or a size such as "64MiB" or "2GB"')


def human_bytes(count: float) -> str:
    """A size for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 record, 2,000 records, 3 queries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
