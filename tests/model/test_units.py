from __future__ import annotations

import pytest

from gauss.model.units import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2000, ("record",), "2,000 records"),
        (1, ("query", "queries"), "1 query"),
        (3, ("query", "queries"), "3 queries"),
    ],
)
def test_a_number_agrees_with_its_noun(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
