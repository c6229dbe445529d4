"""Grants of several processors in one task: the same ranges, unless one has to be set apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import (
    ProcessorFailure,
)
from gauss.model.errors import Fenced
from helpers.delivery import Delivery
from helpers.granted_tasks import numbers, standing


def test_processors_of_one_task_get_the_same_range(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, others=("q",))
    delivery.feed(*numbers(10))
    task = standing(delivery, "p", "q")
    granted = task.next()
    assert granted.grants["p"].end["in"] == granted.grants["q"].end["in"] == At(delivery.topics["in"].inc, 10)
    for name, grant in granted.grants.items():
        task.publish(grant, name)
    assert delivery.data("out") == delivery.data("other") == numbers(10)


def test_one_that_is_a_little_behind_catches_up_first(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, others=("q",))
    delivery.feed(*numbers(10))
    task = standing(delivery, "p", "q")
    granted = task.next(5)
    task.publish(granted.grants["p"], "p")  # killed before it published for the other processor
    task = standing(delivery, "p", "q")
    found = []
    for _ in range(2):
        granted = task.next()
        found.append({name: (grant.start["in"].off, grant.end["in"].off) for name, grant in granted.grants.items()})
        for name, grant in granted.grants.items():
            task.publish(grant, name)
    assert found == [{"q": (0, 5)}, {"p": (5, 10), "q": (5, 10)}]


def test_one_that_is_far_behind_stopped_or_claimed_elsewhere_is_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.stream.engine.delivery.grants.NEAR_ROWS", 5)
    delivery = Delivery(tmp_path, others=("q", "r", "s"))
    delivery.feed(*numbers(10))
    alone = standing(delivery, "p")
    alone.publish(alone.one())
    task = standing(delivery, "p", "q", "r", "s")
    delivery.publisher.running["r"].stopped = "too many dead letters"
    standing(delivery, "s")
    granted = task.next()
    assert granted.apart == {
        "q": "it was 10 records of in behind the others",
        "r": "too many dead letters",
        "s": 'processor "s": generation 1 was replaced by 2',
    }
    assert delivery.grants.taken_apart() == granted.apart
    assert delivery.grants.taken_apart() == {}


def test_trouble_of_one_is_noted_and_may_set_it_apart(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, others=("q",))
    task = standing(delivery, "p", "q")
    delivery.grants.note_failure(ProcessorFailure("q", task.generations["q"], "it divides by a text", apart=True))
    assert delivery.grants.taken_apart() == {"q": "it divides by a text"}
    with pytest.raises(Fenced):
        delivery.grants.note_failure(ProcessorFailure("q", 0, "late"))
