"""Walks become machine code once there is work for them."""

from __future__ import annotations

import time
from typing import Any

from gauss.plugins.formats.compiled import Walk


def double(number: int) -> int:
    return number * 2


def total(numbers: Any) -> int:
    found = 0
    for number in numbers:
        found += double(number)
    return found


def test_a_walk_is_plain_until_there_is_work_and_says_the_same_compiled() -> None:
    walk = Walk(total, double, worth=100)
    plain, compiled = walk.ready(1, 64)
    assert (compiled, plain((1, 2))) == (False, 6)
    fast, compiled = walk.ready(1, 64 * 100)
    assert (compiled, fast((1, 2))) == (True, 6)


def test_a_walk_compiled_in_the_background_is_given_after_it_was_called_once() -> None:
    walk = Walk(total, double, worth=10)
    called: list[Any] = []
    assert walk.compiled(9, 0, called.append) is None
    until = time.monotonic() + 300
    while (found := walk.compiled(1, 0, called.append)) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert found is not None
    assert called == [found]
