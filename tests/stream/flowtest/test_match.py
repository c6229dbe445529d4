"""Expected rows are matched with actual ones."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.stream.flowtest.match import differences, matches, same
from helpers.cases import cases

A, B, C = {"s": "a", "n": 1}, {"s": "b", "n": 2}, {"s": "c", "n": 3}


def told(wanted: list[Any], found: list[Any], *, ordered: bool = False, exact: bool = False) -> list[str]:
    return differences(wanted, found, ordered=ordered, exact=exact)


def test_rows_in_any_order_match_unless_order_is_asked_for() -> None:
    assert told([A, B], [B, A]) == []
    assert told([A, B], [B, A], ordered=True) != []
    assert told([A, B], [A, B], ordered=True) == []


def test_a_wrong_row_is_told_cell_by_cell_beside_its_nearest() -> None:
    assert told([A, B], [{"s": "b", "n": 5}, A]) == [
        'row 2 differs: found {"s": "b", "n": 5}',
        "  n: expected 2, found 5",
    ]


def test_missing_rows_and_rows_too_many_are_told_whole() -> None:
    assert told([A, B], [A]) == ['row 2 is missing: {"s": "b", "n": 2}']
    assert told([A], [A, A]) == ['unexpected: {"s": "a", "n": 1}']
    assert told([], [b"\xff"]) == ["unexpected: base64 /w=="]
    assert told([b"x", b"y"], [b"x", b"z"], ordered=True) == ["row 2 differs: found z", "  expected y"]


def test_columns_that_are_not_named_may_hold_anything_unless_exact() -> None:
    assert told([{"s": "a"}], [A]) == []
    assert told([{"s": "a"}], [A], exact=True) == [
        'row 1 differs: found {"s": "a", "n": 1}',
        "  n: expected no such column, found 1",
    ]
    assert told([{"x": 1, "s": "a"}], [A])[1] == "  x: expected 1, found no such column"


def test_a_loose_row_gives_way_to_one_that_fits_nothing_else() -> None:
    # The first expectation matches both rows, the second only the first of them.
    assert told([{}, {"s": "a"}], [A, B]) == []
    assert told([{}, {}, {"s": "a"}, {"n": 2}], [A, B, C, C]) == []


@settings(max_examples=cases(60), deadline=None)
@given(
    st.lists(st.fixed_dictionaries({}, optional={"a": st.integers(0, 2), "b": st.integers(0, 2)}), max_size=4),
    st.lists(st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.integers(0, 2)}), max_size=4),
)
def test_rows_match_exactly_when_some_pairing_does(wanted: list[Any], found: list[Any]) -> None:
    possible = len(wanted) == len(found) and any(
        all(matches(one, other, exact=False) for one, other in zip(wanted, order, strict=True))
        for order in itertools.permutations(found)
    )
    assert (told(wanted, found) == []) == possible


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, 1.0),
        (0.3, 0.1 + 0.2),
        (float("nan"), float("nan")),
        ("1.50", Decimal("1.5")),
        (1.5, Decimal("1.5")),
        ("text", b"text"),
        ("2026-01-01T00:00:00Z", datetime.datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1)),
        ("2026-01-01", datetime.date(2026, 1, 1)),
        ({"a": [1, {"b": None}]}, {"a": (1, {"b": None})}),
        (None, None),
        (True, True),
    ],
)
def test_values_that_mean_the_same_are_the_same(wanted: Any, found: Any) -> None:
    assert same(wanted, found)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, 2),
        (1, True),
        (0, False),
        (None, 0),
        (0, None),
        ("1", 1.5),
        (1.0, 1.0001),
        ("x", Decimal(1)),
        ("no time", datetime.datetime(2026, 1, 1, tzinfo=UTC)),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        (float("nan"), 1.0),
    ],
)
def test_values_that_differ_are_not_the_same(wanted: Any, found: Any) -> None:
    assert not same(wanted, found)


def test_many_differences_are_counted_behind_the_first_twenty() -> None:
    lines = told([{"n": n} for n in range(50)], [])
    assert len(lines) == 21
    assert lines[-1] == "and 30 more"
