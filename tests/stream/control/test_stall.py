from __future__ import annotations

from typing import Any

import pytest

from gauss.stream.control.stall import Stalls


def query(**changed: Any) -> dict[str, Any]:
    row = {"name": "q", "where": "spark", "state": "running", "epoch": 3, "records": 9, "behind": 5, "targets": ["out"]}
    return {**row, **changed}


FREE = [{"name": "out", "blocked_by": "", "blocked_s": 0.0}]


def test_query_without_progress_though_records_wait_is_stuck() -> None:
    stalls = Stalls(90)
    assert stalls.look([query()], FREE, 0) == []
    assert stalls.look([query()], FREE, 89) == []
    assert stalls.look([query()], FREE, 90) == ["q"]


@pytest.mark.parametrize("changed", [{"epoch": 4}, {"records": 10}, {"behind": 0}, {"state": "failed"}])
def test_progress_idleness_and_failure_are_no_stall(changed: dict[str, Any]) -> None:
    stalls = Stalls(90)
    stalls.look([query()], FREE, 0)
    assert stalls.look([query(**changed)], FREE, 100) == []


def test_full_target_is_no_stall() -> None:
    stalls = Stalls(90)
    blocked = [{"name": "out", "blocked_by": "sink", "blocked_s": 50.0}]
    stalls.look([query()], blocked, 0)
    assert stalls.look([query()], blocked, 100) == []


def test_one_full_target_of_several_is_no_stall() -> None:
    stalls = Stalls(90)
    blocked = [*FREE, {"name": "other", "blocked_by": "sink", "blocked_s": 50.0}]
    stalls.look([query(targets=["out", "other"])], blocked, 0)
    assert stalls.look([query(targets=["out", "other"])], blocked, 100) == []


def test_processor_in_the_engine_is_not_judged() -> None:
    stalls = Stalls(0)
    assert stalls.look([query(where="engine")], FREE, 100) == []


def test_restart_gives_everybody_the_whole_time_again() -> None:
    stalls = Stalls(90)
    stalls.look([query()], FREE, 0)
    stalls.forget()
    assert stalls.look([query()], FREE, 100) == []
