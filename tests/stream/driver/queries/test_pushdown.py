"""Filters that a batch read pushes into the provider keep the rows that Spark keeps, and reduce what is transferred."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    StringStartsWith,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from gauss.contracts.cursor import Program
from gauss.contracts.expression import Kind, Make, Select
from gauss.scan.program.blob import decode_program
from gauss.stream.driver.queries.adhoc_source import ProgramRange, TopicPlan, TopicReader
from gauss.stream.driver.queries.pushdown import PushableColumns, Pushdown

FIELDS = [{"name": "s", "type": "string"}, {"name": "n", "type": "int64"}, {"name": "d", "type": "double"}]
TABLE = [{"name": "s", "type": "string"}, {"name": "d", "type": "double"}]
CONFIG: dict[str, Any] = {
    "formats": [
        {"name": "quote", "plugin": "json", "config": {"fields": FIELDS}},
        {"name": "line", "plugin": "csv", "config": {"fields": TABLE}},
        {"name": "odd", "plugin": "json", "config": {"fields": [{"name": "offset", "type": "int64"}]}},
    ],
    "topics": [
        {"name": "in", "storage": "memory"},
        {"name": "lines", "storage": "memory"},
        {"name": "odd", "storage": "memory"},
        {"name": "dear", "storage": "memory"},
        {"name": "sunk", "storage": "memory"},
    ],
    "processors": [
        {
            "name": "p",
            "plugin": "filter",
            "source": {"topic": "odd", "read": "offset"},
            "target": {"topic": "sunk"},
            "config": {"input": {"format": "odd"}, "where": ".offset > 100"},
        }
    ],
}
RECORDS = [b'{"s":"a","n":1,"d":0.5}', b"bad", b'{"s":"b","n":2}', b'{"s":"ab","n":3,"d":7}']
LINES = [b"a,1", b"b,NaN", b"c,", b"d,5"]


@pytest.fixture(scope="module")
def run(make_shared_engine: Any) -> Any:
    found = make_shared_engine(CONFIG)
    found.send("in", RECORDS)
    found.send("lines", LINES)
    found.send("odd", [b'{"offset":7}', b'{"offset":0}'])
    return found


def reader(run: Any, columns: Iterable[str] = (), **options: str) -> TopicReader:
    plan = TopicPlan.of({"data_dir": str(run.data_dir.root), **options})
    whole = from_arrow_schema(plan.schema())
    chosen: list[StructField] = [whole[name] for name in columns] or list(whole)
    return TopicReader(plan, StructType(chosen))


def parts(found: TopicReader) -> list[ProgramRange]:
    return [part for part in found.partitions() if isinstance(part, ProgramRange)]


def rows(found: TopicReader, given: Iterable[InputPartition]) -> list[dict[str, Any]]:
    return [row for part in given for batch in found.read(part) for row in batch.to_pylist()]


def program(part: ProgramRange) -> Program:
    return decode_program(part.program)


def test_filter_and_columns_run_in_the_engine(run: Any) -> None:
    found = reader(run, ("offset", "s"), topic="in", format="quote")
    assert list(found.pushFilters([StringStartsWith(("s",), "a"), LessThan(("offset",), 3)])) == []
    (part,) = parts(found)
    assert part.projects
    assert [type(stage) for stage in program(part).stages] == [Select, Make]
    assert rows(found, [part]) == [{"offset": 0, "s": "a"}]


def test_only_kept_records_travel_where_the_error_column_is_read(run: Any) -> None:
    found = reader(run, topic="in", format="quote")
    assert list(found.pushFilters([GreaterThan(("n",), 1)])) == []
    (part,) = parts(found)
    assert part.program and not part.projects
    made = [row["offset"] for row in rows(found, [part])]
    assert made == [2, 3]


def test_without_filter_or_narrower_columns_nothing_is_pushed(run: Any) -> None:
    found = reader(run, topic="in", format="quote")
    assert [part.program for part in parts(found)] == [b""]
    assert [row["offset"] for row in rows(found, parts(found))] == [0, 1, 2, 3]
    raw = reader(run, topic="in")
    assert [part.program for part in parts(raw)] == [b""]


def test_records_are_left_behind_where_only_their_place_is_read(run: Any) -> None:
    found = reader(run, ("ts_ms", "offset"), topic="in")
    (part,) = parts(found)
    assert part.projects
    assert [row["offset"] for row in rows(found, [part])] == [0, 1, 2, 3]


def test_what_spark_would_keep_of_nan_is_never_dropped(run: Any) -> None:
    cases: list[tuple[Filter, int, str]] = [
        (GreaterThan(("d",), 2.0), 1, "bcd"),  # NaN is greater than any number in Spark, so Spark filters again
        (LessThan(("d",), 2.0), 0, "a"),
        (IsNull(("d",)), 1, "bc"),
        (IsNotNull(("d",)), 1, "abcd"),
        (EqualTo(("d",), 5.0), 0, "d"),
    ]
    for entry, left, given in cases:
        found = reader(run, ("s", "d"), topic="lines", format="line")
        assert len(list(found.pushFilters([entry]))) == left
        made = rows(found, parts(found))
        assert "".join(row["s"] for row in made) == given
        assert all(math.isnan(row["d"]) for row in made if row["s"] == "b"), "NaN came as it is"


def test_a_topic_whose_own_format_hides_a_column_is_filtered_by_the_reader(run: Any) -> None:
    found = reader(run, topic="odd")
    assert list(found.pushFilters([EqualTo(("offset",), 0)])) == []
    assert [part.program for part in parts(found)] == [b""]
    assert [row["data"] for row in rows(found, parts(found))] == [b'{"offset":7}']


def test_a_record_too_dear_for_the_engine_is_looked_at_by_the_reader(run: Any) -> None:
    run.send("dear", [*RECORDS, msgspec.json.encode({"s": "x" * 1_100_000, "n": 9, "d": 1})])
    found = reader(run, ("s", "n"), topic="dear", format="quote")
    assert list(found.pushFilters([StringStartsWith(("s",), "x")])) == []
    assert [row["n"] for row in rows(found, parts(found))] == [9]


def test_a_list_of_values_beyond_the_language_stays_with_spark() -> None:
    pushed = Pushdown(PushableColumns({"n": Kind.INT}))
    assert pushed.take(In(("n",), tuple(range(20))))
    assert not pushed.take(In(("n",), tuple(range(10_000))))
    assert pushed.kept(pa.record_batch({"n": [1, 30]})).num_rows == 1


def test_a_field_of_any_value_is_left_to_spark() -> None:
    assert PushableColumns({"j": Kind.ANY}).condition(EqualTo(("j",), "x")) == (None, False)
