"""Skips of standing tasks: only failing records become dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.clients.engine.task_messages import (
    ProcessorFailure,
)
from gauss.model.errors import ConfigError
from helpers.cases import cases
from helpers.delivery import Delivery
from helpers.granted_tasks import numbers, standing


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return Delivery(tmp_path)


@settings(max_examples=cases(60), deadline=None)
@given(st.integers(1, 60), st.sets(st.integers(0, 59), max_size=5), st.booleans())
def test_skip_buries_just_the_records_at_which_it_fails(
    tmp_path_factory: pytest.TempPathFactory, count: int, bad: set[int], dies: bool
) -> None:
    delivery = Delivery(tmp_path_factory.mktemp("skip"))
    delivery.feed(*numbers(count))
    bad = {number for number in bad if number < count}
    task = standing(delivery)

    def run() -> None:
        """Runs epochs until one fails or there is no work."""
        nonlocal task
        while (granted := task.next()).grants:
            grant = granted.grants["p"]
            if not grant.skip and bad & set(range(grant.start["in"].off, grant.end["in"].off)):
                delivery.grants.note_failure(ProcessorFailure("p", task.generations["p"], "bad"))
                if not grant.narrowed:
                    return
                if dies:
                    task = standing(delivery)
                else:
                    task.claim()
                continue
            task.publish(grant)

    run()
    if bad:
        delivery.grants.skip("p", "bad")
        task = standing(delivery)
        run()
    assert delivery.data() == [each for at, each in enumerate(numbers(count)) if at not in bad]
    assert delivery.running.skip is None
    assert delivery.topics["_dead"].version() == len(bad)


def test_skip_of_nothing_is_refused(delivery: Delivery) -> None:
    standing(delivery)
    with pytest.raises(ConfigError, match="nothing to skip"):
        delivery.grants.skip("p", "")


def test_skip_of_a_table_takes_the_whole_epoch(tmp_path: Path) -> None:
    delivery = Delivery(tmp_path, tracked=True)
    delivery.feed(*numbers(10))
    task = standing(delivery)
    task.one(4)
    delivery.grants.skip("p", "the table is gone")
    task = standing(delivery)
    grant = task.one()
    assert (grant.skip, grant.end["in"].off) == ("the table is gone", 4)
    task.publish(grant)
    assert delivery.running.skip is None and delivery.topics["_dead"].version() == 4
