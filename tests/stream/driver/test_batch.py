"""Bounded reads and writes through `format("gauss")`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gauss import registry
from gauss.clients.engine.positions import At, Ends
from gauss.clients.engine.task_messages import Claim
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import ConfigError
from gauss.stream.driver.planning.reads import ReadRecords
from gauss.stream.driver.planning.refs import FieldRef, FormatRef, encode_fields
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries.compile import result

pytestmark = pytest.mark.spark

CONFIG: dict[str, Any] = {
    "topics": [{"name": "in", "storage": "memory"}, {"name": "out", "storage": "memory"}],
    "processors": [
        {
            "name": "p",
            "plugin": "sql",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "out"},
            "config": {"input": {"format": "json"}, "query": "SELECT n FROM input"},
        }
    ],
}


def fed(make_engine: Any, *records: bytes) -> tuple[Any, ReadRecords, Ends]:
    """An engine with records, a claimed reader of `n`, and the offsets behind the records."""
    run = make_engine(CONFIG)
    run.send("in", list(records))
    claimed = run.client.claim(Claim("p", "c", ["in"], ["out"]))
    ends = {**claimed.start, "in": At(claimed.start["in"].inc, len(records))}
    fields = encode_fields([FieldRef("n", "int64")])
    flight = str(run.data_dir.flight_json)
    return run, ReadRecords(flight, "p", claimed.generation, FormatRef("json"), fields, start=claimed.start), ends


def frame(spark: Any, plan: ReadRecords, ends: Ends) -> Any:
    end = msgspec.json.encode(ends).decode()
    return spark.read.format("gauss").option("plan", plan.option()).option("end", end).load()


def test_batch_read_and_write_publish_one_epoch_once(make_engine: Any, spark: Any) -> None:
    run, plan, ends = fed(make_engine, b'{"n":1}', b'{"n":2}', b"bad", b'{"n":3}')
    rows = frame(spark, plan, ends)
    assert [row.n for row in rows.select("n").collect()] == [1, 2, 3]
    write = WriteRows(
        plan.flight, "p", plan.generation, "out", FormatRef("json"), checkpoint="c", checkpoint_dir="", series="c"
    )
    for _ in range(2):  # the second write has the same epoch and ends, and so has no effect
        rows.selectExpr("_ts_ms", "n * 2 AS d").write.format("gauss").option("plan", write.option()).option(
            "epoch", "0"
        ).option("ends", msgspec.json.encode(ends).decode()).mode("append").save()
    assert [json.loads(record) for record in run.records("out")] == [{"d": 2}, {"d": 4}, {"d": 6}]
    assert [json.loads(letter)["reason"] for letter in run.records("_dead")] == ["bad_json"]


def test_a_result_that_has_a_column_twice_is_a_fault_that_names_it(make_engine: Any, spark: Any) -> None:
    _, plan, ends = fed(make_engine, b'{"n":1}')
    spec = registry.spec(ProcessorSpec, "sql")
    transform = registry.build(spec, spec.validate({"input": {"format": "json"}, "query": "SELECT *, n FROM input"}))
    with pytest.raises(ConfigError, match=r"more than one column n$") as caught:
        result(spark, plan, transform, frame(spark, plan, ends))
    assert "AS" in caught.value.hint
