"""A standing job on Spark runs a hosted processor."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gauss.spark.standing import StandingJob
from gauss.stream.driver.tasks.standing_loop import make_loop
from helpers.standing import hosted_plan, new_job

pytestmark = pytest.mark.spark

FIELDS = [{"name": "n", "type": "int64"}, {"name": "d", "type": "double"}]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "all", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [
        {"name": name, "storage": "memory", "storage_config": {"storage_size": "unlimited"}}
        for name in ("in", "value.out")
    ],
    "processors": [
        {
            "name": "value",
            "plugin": "expression",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "value.out"},
            "config": {"input": {"format": "all"}, "program": ".n - 1"},
        }
    ],
}


def test_a_standing_job_publishes_in_order_and_counts_every_record(make_engine: Any, spark: Any) -> None:
    run = make_engine(CONFIG)
    run.send("in", [b'{"n":%d,"d":1}' % n for n in range(70_000)])
    number = new_job(run.client)
    plan = hosted_plan(run.client, run.data_dir, run.pipeline, number, ["value"])
    job = StandingJob(spark.sparkContext, "value", partial(make_loop, plan), tasks=2)
    try:
        found = run.wait_for("value.out", 70_000)
        run.client.command("standing.end", {"job": number})
        assert job.wait(60)
    finally:
        job.cancel()
    assert job.error() is None
    assert found == run.records("value.out") == [b'{"value":%d.0}' % (n - 1) for n in range(70_000)]
    assert run.processor("value")["records"] == 70_000
