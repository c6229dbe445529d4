"""When a table's reader begins a batch: enough records, or long enough a wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from gauss.stream.driver.plan import ReadPlan
from gauss.stream.driver.source import StreamReader
from gauss.stream.protocol import Claim

MakeEngine = Callable[[dict[str, Any]], Any]
TABLE = {
    "topics": [{"name": "rows", "storage": "clickhouse", "storage_config": {"host": "db.example"}}],
}


def test_few_records_wait_for_more_but_not_for_ever(make_engine: MakeEngine) -> None:
    run = make_engine(TABLE)
    claimed = run.client.claim(Claim("_table.rows", "checkpoint", ["rows"], []))
    plan = ReadPlan(
        flight=str(run.data_dir.flight_json),
        processor="_table.rows",
        generation=claimed.generation,
        start=claimed.start,
        hosted=True,
        min_rows=10,
        flush_ms=600,
    )
    reader = StreamReader(plan, StructType())
    start = reader.initialOffset()

    def latest() -> dict[str, Any]:
        return reader.latestOffset(start, ReadMaxRows(1_000))

    assert latest() == start
    run.send("rows", [b"x"] * 3)
    assert latest() == start
    time.sleep(0.7)
    assert latest()["rows"]["off"] == 3
    start = msgspec.to_builtins(latest())
    run.send("rows", [b"x"] * 20)
    assert latest()["rows"]["off"] == 23
