"""A dozen faults of a fleet in a row: `make fleet-kills` makes 100 with workers on Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from helpers.fleet_kills import VICTIMS, FleetKills


@pytest.mark.system
@pytest.mark.fault
@pytest.mark.timeout(600)
def test_after_a_dozen_faults_each_record_is_one_row(tmp_path: Path) -> None:
    kills = FleetKills(tmp_path, spark=False)
    try:
        chance = random.Random(7)
        for victim in [*VICTIMS, "store", "broker"]:
            kills.round(victim, chance)
        kills.check()
    finally:
        kills.close()
