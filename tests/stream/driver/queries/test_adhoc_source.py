"""`format("gauss")` in a user's Spark job: batch reads, streams and writes of topics by name."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, Not, StringStartsWith

from gauss.contracts.expression import Kind
from gauss.model.errors import ConfigError
from gauss.stream.driver.queries.adhoc_source import TopicPlan
from gauss.stream.driver.queries.pushdown import PushableColumns

FIELDS = [{"name": "s", "type": "string"}, {"name": "n", "type": "int64"}, {"name": "d", "type": "double"}]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "quote", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [{"name": name, "storage": "memory"} for name in ("in", "out")],
}
RECORDS = [b'{"s":"a","n":1,"d":0.5}', b"bad", b'{"s":"b","n":2}', b'{"s":"ab","n":3,"d":7}']


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(("s",), 'x"y'), '.["s"] == "x\\"y"'),
        (GreaterThan(("d",), 1), '.["d"] > 1'),
        (In(("n",), (1, 2)), '.["n"] == 1 or .["n"] == 2'),
        (IsNotNull(("t",)), None),
        (StringStartsWith(("s",), "a"), '(.["s"] | startswith("a"))'),
        (EqualTo(("n",), 1.5), None),
        (EqualTo(("n",), True), None),
        (GreaterThan(("d",), float("inf")), None),
        (EqualTo(("x", "y"), 1), None),
        (Not(EqualTo(("n",), 1)), None),
    ],
)
def test_a_filter_is_taken_where_the_language_has_the_same_answer(given: Any, expected: str | None) -> None:
    kinds = {"s": Kind.STRING, "n": Kind.INT, "d": Kind.NUMBER, "t": Kind.OPAQUE}
    assert PushableColumns(kinds).condition(given) == (expected, expected is not None)


def test_options_without_a_topic_are_told_which_there_are() -> None:
    with pytest.raises(ConfigError, match='"topic"'):
        TopicPlan.of({"data_dir": "x"})


@pytest.mark.spark
def test_a_topic_is_read_by_name_decoded_and_filtered_beside_the_data(make_engine: Any, spark: Any) -> None:
    run = make_engine(CONFIG)
    run.send("in", RECORDS)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    reader = spark.read.format("gauss").option("topic", "in").option("data_dir", str(run.data_dir.root))
    raw = reader.load()
    assert raw.columns == ["offset", "ts_ms", "data"]
    assert [bytes(row.data) for row in raw.collect()] == RECORDS
    assert [row.offset for row in reader.option("start", "-2").load().collect()] == [2, 3]
    assert [row.offset for row in reader.option("start", "0").option("end", "1").load().collect()] == [0]

    rows = reader.option("start", "earliest").option("end", "end").option("format", "quote").load()
    found = [(row.offset, row.s, row.n, row.d) for row in rows.collect()]
    assert found == [(0, "a", 1, 0.5), (1, None, None, None), (2, "b", 2, None), (3, "ab", 3, 7.0)]
    assert [row.offset for row in rows.where("_error LIKE 'bad_json%'").collect()] == [1]
    kept = rows.where("n > 1 AND s LIKE 'a%' AND d IS NOT NULL")
    assert [row.offset for row in kept.collect()] == [3]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        kept.explain("formatted")
    narrow = reader.schema("s string, offset long").load().where("s LIKE 'a%' AND offset < 3")
    assert [(row.s, row.offset) for row in narrow.collect()] == [("a", 0)]
    assert "PushedFilters" in shown.getvalue() and "GreaterThan(n,1)" in shown.getvalue(), shown.getvalue()


@pytest.mark.spark
def test_a_topic_is_streamed_and_appended_to_by_name(make_engine: Any, spark: Any, tmp_path: Any) -> None:
    run = make_engine(CONFIG)
    run.send("in", RECORDS)
    options = {"topic": "in", "data_dir": str(run.data_dir.root), "format": "quote"}
    stream = spark.readStream.format("gauss").options(**options).load()

    def append(batch: Any, _: int) -> None:
        out = {**options, "topic": "out"}
        batch.where("n IS NOT NULL").select("n").write.format("gauss").options(**out).mode("append").save()

    query = stream.writeStream.foreachBatch(append).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        found = run.wait_for("out", 3)
    finally:
        query.stop()
    assert [json.loads(record)["n"] for record in found] == [1, 2, 3]
    raw = spark.createDataFrame([(b"x",)], "data binary")
    raw.write.format("gauss").option("topic", "out").option("data_dir", options["data_dir"]).mode("append").save()
    assert run.records("out")[-1] == b"x"
