"""Parses and formats durations, sizes and times: `1m`, `64MiB`, `2026-01-31T12:00:00Z`, `-5m`."""

from __future__ import annotations

import datetime
import re

from gauss.model.cron import Cron

_MOST_DIGITS = 18
"""Maximum digits of a number: more would overflow a float."""
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CRON = re.compile(r"[\d*,/-]+( [\d*,/A-Za-z-]+){4}")
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
    """Milliseconds of a duration such as `"1m"`. Raises ValueError."""
    if isinstance(value, str) and (found := _DURATION.match(value.strip())) and len(found[1]) <= _MOST_DIGITS:
        return round(float(found[1]) * _DURATION_MS[found[2]])
    raise ValueError('expected a duration such as "250ms", "10s", "1m", "2h" or "7d"')


def interval(value: object) -> int | str:
    """Milliseconds of a duration; a cron expression of five fields stays text. Raises ValueError."""
    if isinstance(value, str) and _CRON.fullmatch(value.strip()):
        Cron(value)
        return value.strip()
    try:
        found = duration_ms(value)
    except ValueError:
        raise ValueError('expected a duration such as "5m", or a cron expression such as "0 * * * *"') from None
    if not found:
        raise ValueError("expected a duration above 0")
    return found


def moment(value: object) -> int | str:
    """A time as Unix ms. A relative time (`now`, `-5m`) stays text: it is resolved when it is used."""
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
    """Resolves a time to Unix ms."""
    if isinstance(value, int):
        return value
    return now_ms if value == "now" else now_ms - duration_ms(value.removeprefix("-"))


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)


def size_bytes(value: object) -> int:
    """Bytes of a size such as `"64MiB"`, or of a number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (found := _SIZE.match(value.strip())) and len(found[1]) <= _MOST_DIGITS:
        return round(float(found[1]) * _SIZE_BYTES[found[2]])
    raise ValueError('expected bytes as a number, or a size such as "64MiB" or "2GB"')


def human_bytes(count: float) -> str:
    """Formats a size: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 record, 2,000 records, 3 queries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def human_count(number: float) -> str:
    """A number in three digits, as people say it: 420, 31.8 k, 1.31 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= 0.9995 * size:
            return f"{float(f'{number / size:.3g}'):g} {unit}"
    return f"{float(f'{number:.3g}'):g}"


def human_seconds(seconds: float) -> str:
    """A duration in the largest units that matter: 0.4 s, 94 s, 4 min 12 s, 2 h 14 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
