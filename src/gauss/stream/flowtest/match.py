"""Comparison of expected and found rows, with differences reported cell by cell."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gauss.stream.flowtest.records import Found

SHOWN = 20
"""Maximum number of rows shown per kind of difference; the rest is counted."""
TOLERANCE = 1e-9
"""Relative tolerance between floats, since sums depend on the order of additions."""


def differences(wanted: Sequence[Found], found: Sequence[Found], *, ordered: bool, exact: bool) -> list[str]:
    """The differences as lines of text; empty if there are none."""
    if ordered:
        pairs = [(place, place) for place in range(min(len(wanted), len(found)))]
        bad = [pair for pair in pairs if not matches(wanted[pair[0]], found[pair[1]], exact=exact)]
        missing, extra = list(range(len(found), len(wanted))), list(range(len(wanted), len(found)))
    else:
        missing, extra = _unmatched(wanted, found, exact)
        bad = _nearest(wanted, found, missing, extra)
        missing = [each for each in missing if each not in {place for place, _ in bad}]
        extra = [each for each in extra if each not in {place for _, place in bad}]
    lines: list[str] = []
    for expected, actual in bad[:SHOWN]:
        lines.append(f"row {expected + 1} differs: found {shown(found[actual])}")
        lines += [f"  {line}" for line in _cells(wanted[expected], found[actual], exact)]
    lines += [f"row {place + 1} is missing: {shown(wanted[place])}" for place in missing[:SHOWN]]
    lines += [f"unexpected: {shown(found[place])}" for place in extra[:SHOWN]]
    more = sum(max(0, len(part) - SHOWN) for part in (bad, missing, extra))
    return [*lines, f"and {more} more"] if more else lines


def _unmatched(wanted: Sequence[Found], found: Sequence[Found], exact: bool) -> tuple[list[int], list[int]]:
    """The rows without a partner in a maximum matching: an expected row with few columns fits many found rows, so
    earlier pairs are rearranged if that allows another pair."""
    taken: dict[int, int] = {}

    def place(expected: int, tried: set[int]) -> bool:
        for actual in range(len(found)):
            if actual in tried or not matches(wanted[expected], found[actual], exact=exact):
                continue
            tried.add(actual)
            if actual not in taken or place(taken[actual], tried):
                taken[actual] = expected
                return True
        return False

    missing = []
    for expected in range(len(wanted)):
        free = (at for at in range(len(found)) if at not in taken and matches(wanted[expected], found[at], exact=exact))
        first = next(free, None)
        if first is not None:
            taken[first] = expected
        elif not place(expected, set()):
            missing.append(expected)
    return missing, [actual for actual in range(len(found)) if actual not in taken]


def _nearest(
    wanted: Sequence[Found], found: Sequence[Found], missing: list[int], extra: list[int]
) -> list[tuple[int, int]]:
    """Pairs of rows that are probably meant to be the same: those with the most equal cells, at least one."""
    scored = sorted(
        ((_equal_cells(wanted[one], found[other]), one, other) for one in missing[:200] for other in extra[:200]),
        key=lambda item: (-item[0], item[1], item[2]),
    )
    pairs: dict[int, int] = {}
    for score, one, other in scored:
        if score and one not in pairs and other not in pairs.values():
            pairs[one] = other
    return sorted(pairs.items())


def _equal_cells(wanted: Found, found: Found) -> int:
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return 0
    return sum(name in found and same(value, found[name]) for name, value in wanted.items())


def matches(wanted: Found, found: Found, *, exact: bool) -> bool:
    """Whether a found row matches the expected one."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return wanted == found
    if exact and set(wanted) != set(found):
        return False
    return all(same(value, found.get(name)) for name, value in wanted.items())


def same(wanted: Any, found: Any) -> bool:
    """Whether two values are equal, where TOML has fewer types than a table."""
    if wanted is None or found is None or isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found or (wanted == found and type(wanted) is type(found))
    if isinstance(wanted, dict) and isinstance(found, dict):
        return set(wanted) == set(found) and all(same(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(found, float) and isinstance(wanted, int | float):
        return math.isclose(wanted, found, rel_tol=TOLERANCE) or (math.isnan(wanted) and math.isnan(found))
    if isinstance(found, Decimal):
        return _as_decimal(wanted) == found
    if isinstance(found, datetime.datetime):
        return _as_moment(wanted) == _as_moment(found)
    if isinstance(found, bytes) and isinstance(wanted, str):
        return wanted.encode() == found
    if isinstance(wanted, str) and not isinstance(found, str):
        return wanted == str(found)  # dates, UUIDs, addresses
    return bool(wanted == found)


def _as_decimal(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _as_moment(value: Any) -> datetime.datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime.datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)


def _cells(wanted: Found, found: Found, exact: bool) -> list[str]:
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return [f"expected {shown(wanted)}"]
    lines = [
        f"{name}: expected {shown(value)}, found {shown(found[name]) if name in found else 'no such column'}"
        for name, value in wanted.items()
        if not same(value, found.get(name))
    ]
    unnamed = [name for name in found if name not in wanted] if exact else []
    return lines + [f"{name}: expected no such column, found {shown(found[name])}" for name in unnamed]


def shown(value: Any) -> str:
    """A value or row for display: text unchanged, other bytes in base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64 {base64.b64encode(value).decode()}"
    return json.dumps(value, ensure_ascii=False, default=str)
