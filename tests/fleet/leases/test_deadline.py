"""The end of a lease as another process sees it."""

from __future__ import annotations

import pickle

import pytest

from gauss.fleet.leases import deadline as module
from gauss.fleet.leases import keeper
from gauss.fleet.leases.deadline import Deadline


def test_on_the_same_machine_it_is_the_same_time_however_late_the_task_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    at = keeper.clock() + 5
    sent = pickle.loads(pickle.dumps(Deadline.of(at)))
    monkeypatch.setattr(module, "clock", lambda: at + 100)
    assert sent.here() == at


def test_on_another_machine_what_was_left_counts_from_the_start_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "clock", lambda: 1_000.0)
    made = Deadline.of(1_004.0)
    sent = Deadline(made.at, made.left, boot="another")
    monkeypatch.setattr(module, "clock", lambda: 50.0)
    assert sent.here() == 54.0
