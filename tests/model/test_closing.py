from __future__ import annotations

import pytest

from gauss.model.closing import Closing, close_process, hold, scope


class Thing:
    def __init__(self, told: list[str], name: str, *, fails: bool = False) -> None:
        self.told, self.name, self.fails = told, name, fails

    def close(self) -> None:
        self.told.append(self.name)
        if self.fails:
            raise OSError("no")


def test_each_is_closed_once_and_the_newest_first_whatever_one_raises() -> None:
    told: list[str] = []
    held = Closing()
    with scope(held):
        for name in "abc":
            hold(Thing(told, name, fails=name == "b"))
    assert told == []
    assert held.close() == 3 and held.close() == 0
    assert told == ["c", "b", "a"]


def test_a_scope_closes_what_was_made_in_it_also_after_an_error() -> None:
    told: list[str] = []
    with pytest.raises(ValueError, match="why"), scope():
        hold(Thing(told, "inner"))
        with scope():
            hold(Thing(told, "innermost"))
        assert told == ["innermost"]
        raise ValueError("why")
    assert told == ["innermost", "inner"]
    assert close_process() == 0


def test_what_has_no_close_is_not_held() -> None:
    with scope() as held:
        hold(object())
        assert len(held) == 0
