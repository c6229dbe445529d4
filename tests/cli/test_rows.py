from __future__ import annotations

import io
from typing import Any

import pytest

from gauss.cli.rows import FIRST_ROWS, RowPrinter, shown


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("a", None, "null"),
        ("a", 1.0, "1"),
        ("a", 1.25, "1.25"),
        ("a", True, "true"),
        ("a", "two\nlines", "two\\nlines"),
        ("a", {"base64": "/wA="}, '{"base64": "/wA="}'),
        ("ts_ms", 1_700_000_000_007, "2023-11-14 22:13:20.007"),
        ("ts_ms", None, "null"),
    ],
)
def test_value_is_shown_on_one_line(name: str, value: Any, text: str) -> None:
    assert shown(name, value) == text


def printed(rows: list[dict[str, Any]], *, live: bool = False) -> list[str]:
    out = io.StringIO()
    assert RowPrinter(out, live=live).print(rows) == len(rows)
    return out.getvalue().splitlines()


def test_numbers_stand_to_the_right_and_names_above() -> None:
    assert printed([{"symbol": "BTC", "bid": 7.0}, {"symbol": "E", "bid": 1000.5}]) == [
        "symbol     bid",
        "BTC          7",
        "E       1000.5",
    ]


def test_rows_after_the_first_go_on_below_them() -> None:
    lines = printed([{"n": n} for n in range(FIRST_ROWS + 5)])
    assert lines[-1].strip() == str(FIRST_ROWS + 4) and len(lines) == FIRST_ROWS + 6


def test_deletions_are_shown_live_only() -> None:
    row = {"key": "a", "deleted": False}
    assert printed([row]) == ["key", "a"]
    assert printed([row], live=True)[0].split() == ["key", "deleted"]


def test_nothing_gives_no_header() -> None:
    assert printed([]) == []
