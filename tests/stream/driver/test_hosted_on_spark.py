"""Both forms of a transform give the same for the same records, bad ones included; and Spark runs the hosted one."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.spark.standing import StandingJob
from gauss.stream.driver.compile import design, result
from gauss.stream.driver.plan import ReadPlan, WritePlan, encode_fields, to_option
from gauss.stream.driver.sink import stage_batch
from gauss.stream.driver.standing import make_loop
from helpers.standing import HostedTask, hosted_plan, new_job

pytestmark = pytest.mark.spark

FIELDS = [
    {"name": "s", "type": "string"},
    {"name": "n", "type": "int64"},
    {"name": "small", "type": "uint8"},
    {"name": "d", "type": "double"},
    {"name": "b", "type": "bool"},
    {"name": "m", "type": {"name": "decimal", "attrs": {"precision": 12, "scale": 3}}},
    {"name": "t", "type": {"name": "timestamp", "attrs": {"precision": 3}}},
    {"name": "$.o.id", "type": "int64"},
]
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "typed": ("filter", {"where": '.n > 0 and (.s != "no" or .b) or .o.id == null'}),
    "anew": ("filter", {"where": ".d < 10 or not .b", "output": {"format": "all"}}),
    "loose": ("filter", {"input": {"format": "json"}, "where": '.d * 2 >= 1 or (.s | startswith("a"))'}),
    "made": (
        "expression",
        {"program": "select(.d != 0) | {s, q: .n / .d, r: (.m - .small) * 2, id: .o.id, at: .ts_ms, l: (.s | length)}"},
    ),
    "chain": ("expression", {"program": "{q: .d + .small, s} | select(.q > 1) | {q, both: (.s + .s)}"}),
    "passed": ("expression", {"program": "select(.b and .n % 3 != 0)"}),
    "added": ("expression", {"add": {"twice": ".d * 2", "s": '.s + "!"'}}),
    "value": ("expression", {"program": ".n - 1"}),
}
CONFIG: dict[str, Any] = {
    "formats": [{"name": "all", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [
        {"name": name, "storage": "memory", "storage_config": {"storage_size": "unlimited"}}
        for name in ("in", *(f"{job}.out" for job in JOBS))
    ],
    "processors": [
        {
            "name": job,
            "plugin": plugin,
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": f"{job}.out"},
            "config": {"input": {"format": "all"}, **config},
        }
        for job, (plugin, config) in JOBS.items()
    ],
}

VALUES = {
    "s": st.one_of(st.none(), st.sampled_from(["", "no", "a", "é", "a\nb", '"', "7", "true"]), st.text(max_size=5)),
    "n": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)),
    "small": st.one_of(st.none(), st.integers(0, 255)),
    "d": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0, -0.0, 0.5, 10])),
    "b": st.one_of(st.none(), st.booleans()),
    "m": st.one_of(st.none(), st.decimals(-999999, 999999, places=3).map(float)),
    "t": st.one_of(st.none(), st.sampled_from(["2024-05-01T10:00:00.123456Z", "1969-12-31T23:59:59Z"])),
    "o": st.one_of(st.none(), st.just({}), st.fixed_dictionaries({"id": st.integers(-3, 3)})),
}
RECORD = st.one_of(
    st.fixed_dictionaries({}, optional=VALUES).map(lambda row: json.dumps(row).encode()),
    st.sampled_from([b"", b"[]", b"\xff", b'{"n":1.5}', b'{"d":"x"}', b'{"small":256}', b'{"n":1,"n":2}', b'{"s":3}']),
)


class Both:
    """A processor's result in both ways, epoch by epoch."""

    def __init__(self, run: Any, spark: Any) -> None:
        self.run, self.spark = run, spark
        self._tasks = {job: HostedTask(run.client, run.data_dir, run.pipeline, [job]) for job in JOBS}

    def results(self, job: str) -> tuple[list[Any], list[Any]]:
        """What both make of the records that came last."""
        processor = next(entry for entry in self.run.pipeline.processors if entry.name == job)
        found, task, target = design(self.run.pipeline, processor), self._tasks[job], f"{job}.out"
        assert found.hosted is not None
        grants = task.granted()
        flight, generation = str(self.run.data_dir.flight_json), task.loop.generations[job]
        read = ReadPlan(flight, job, generation, {"in": grants[job].start["in"]}, format=found.input)
        read = msgspec.structs.replace(read, fields=encode_fields(found.decided({})))
        write = WritePlan(flight, job, generation, "c", "", target, found.output)
        end = msgspec.json.encode({"in": grants[job].end["in"]}).decode()
        frame = self.spark.read.format("gauss").option("plan", to_option(read)).option("end", end).load()
        batches = result(self.spark, read, found.transform, frame).toArrow().combine_chunks().to_batches()
        columns = [row for batch in batches for row in stage_batch(batch, write, []).to_pylist()]
        done = task.hold(grants)
        done.publish()
        return columns, done.staged().get(target, [])


@pytest.fixture
def both(make_engine: Any, spark: Any) -> Both:
    return Both(make_engine(CONFIG), spark)


def test_hosted_and_columns_give_the_same_records(both: Both) -> None:
    written: dict[str, list[bytes]] = {job: [] for job in JOBS}

    @settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(RECORD, min_size=60, max_size=200))
    def property_(records: list[bytes]) -> None:
        both.run.send("in", records)
        for job in JOBS:
            columns, hosted = both.results(job)
            assert hosted == columns, job
            written[job] += [row["data"] for row in columns]

    property_()
    for job in JOBS:
        assert both.run.records(f"{job}.out") == written[job] != [], job


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
