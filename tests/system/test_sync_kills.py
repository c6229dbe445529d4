"""Processes of syncs are killed at random moments: no row is lost or duplicated, in any mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.sync_kills import ROUNDS, Kills

pytestmark = [pytest.mark.system, pytest.mark.fault, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kills]:
    made = Kills(tmp_path_factory.mktemp("kills"), seed=1)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("stream", "victim", "spark"),
    [pytest.param(*each, marks=pytest.mark.spark) if each[2] else each for each in ROUNDS],
    ids=[f"{stream}-{victim}{'-spark' if spark else ''}" for stream, victim, spark in ROUNDS],
)
def test_a_killed_part_loses_and_doubles_nothing(kills: Kills, stream: str, victim: str, spark: bool) -> None:
    kills.round(stream, victim, spark=spark)
