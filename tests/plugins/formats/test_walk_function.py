"""Walks are compiled when there is enough work for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from gauss.plugins.formats.walk_function import WalkFunction
from helpers.waiting import wait_until


def double(number: int) -> int:
    return number * 2


def total(numbers: Any) -> int:
    found = 0
    for number in numbers:
        found += double(number)
    return found


def test_a_walk_is_plain_until_there_is_work_and_says_the_same_compiled() -> None:
    walk = WalkFunction(total, double, worth=100)
    plain, compiled = walk.ready(1, 64)
    assert (compiled, plain((1, 2))) == (False, 6)
    fast, compiled = walk.ready(1, 64 * 100)
    assert (compiled, fast((1, 2))) == (True, 6)


def test_load_cached_compiles_nothing_and_loads_what_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    numbers = np.array([1, 2])
    fresh = WalkFunction(total, double, worth=0)
    assert not fresh.load_cached(lambda function: function(numbers))
    fast, _ = fresh.ready(1, 0)
    assert fast(numbers) == 6
    later = WalkFunction(total, double, worth=1_000)
    assert later.load_cached(lambda function: function(numbers))
    found, compiled = later.ready(1, 0)
    assert (compiled, found(numbers)) == (True, 6)


def test_a_walk_compiled_in_the_background_is_given_after_it_was_called_once() -> None:
    walk = WalkFunction(total, double, worth=10)
    called: list[Any] = []
    assert walk.compiled(9, 0, called.append) is None
    found = wait_until(lambda: walk.compiled(1, 0, called.append), 300)
    assert called == [found]
