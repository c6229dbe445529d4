"""Skips of streaming queries, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Claim
from gauss.model.paths import DataDir
from gauss.stream.driver.planning.checkpoint import Checkpoint
from gauss.stream.driver.queries.skipping import Skipping
from helpers.standing import hosted_config

pytestmark = pytest.mark.system


@pytest.mark.parametrize("whole", [True, False])
def test_failed_epoch_is_halved_unless_a_part_of_it_may_be_written_outside(
    make_engine: Callable[[dict[str, Any]], Any], tmp_path: Path, whole: bool
) -> None:
    run = make_engine(hosted_config())
    checkpoint = Checkpoint(DataDir(tmp_path), "p", "hash")
    claimed = run.client.claim(Claim("p", checkpoint.open(), ["in"], ["out"]))
    run.send("in", [b"%d" % number for number in range(8)])
    ends = msgspec.json.encode({**claimed.start, "in": At(claimed.start["in"].inc, 8)}).decode()
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "metadata").write_text("{}")
    (checkpoint.spark / "offsets" / "0").write_text(f"v1\n{{}}\n{ends}")
    skipping = Skipping("p", run.client)
    skipping.narrow(checkpoint, claimed, ["out"], "bad", whole=whole)
    letters = [json.loads(letter) for letter in run.records("_dead")]
    assert [(letter["reason"], letter["offset"]) for letter in letters] == [("skipped", at) for at in range(8 * whole)]
    assert (skipping.max_rows, checkpoint.planned()) == ((0, 0) if whole else (4, None))
