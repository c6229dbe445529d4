"""The two forms of a join, columns of Spark and Arrow in a hosted task: the same rows from both."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.processor import TableTransform
from gauss.stream.driver.compile import nested
from gauss.stream.driver.plan import FormatRef
from gauss.stream.driver.reading import format_of
from gauss.stream.driver.side_table import SideTable, _schema
from helpers.standing import designed
from stream.driver.test_join import config
from stream.driver.test_side_table import events

pytestmark = pytest.mark.spark

CASES: list[dict[str, Any]] = [
    {"input": {"format": "json"}, "join_type": "left"},
    {"input": {"format": "json"}, "join_fields": ["name"], "join_prefix": "i_"},
    {"input": {"format": "json"}, "join_fields": ["name", "bid"], "output": {"format": "both"}},
    {"table_format": "instrument", "input": {"format": "quote"}, "join_type": "left"},
    {
        "plugin": "enrich",
        "table_format": "instrument",
        "input": {"format": "quote"},
        "lookup": {"key": "symbol", "topic": "instruments"},
        "add": {"venue": "x", "n": 1},
    },
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_both_forms_of_a_join_give_the_same_rows(spark: Any, case: int) -> None:
    chance = random.Random(case)
    design = designed(config(**CASES[case]))
    transform: TableTransform = design.transform  # type: ignore[assignment]
    rows = SideTable(FormatRef("json").build(), _schema(transform.table_fields))
    names = [f"S{number}" for number in range(20)]
    rows.change(events(*((name, {"symbol": name, "name": f"n {name}", "bid": 1.5}) for name in names[::2])))
    rows.change(events((names[0], None), (names[3], {"symbol": names[3], "name": None})))
    transform.look_up_in(rows)
    fields = pa.schema([field.arrow() for field in design.decided({})])
    keys = [*names, 7, 1.5, [1], None, 'S"2', "é"]
    picked = [chance.choice(keys) for _ in range(200)]
    if fields.field("symbol").type == pa.string() and not fields.field("symbol").metadata:
        picked = [key if isinstance(key, str) else None for key in picked]  # what is typed is decoded only so
    data = [json.dumps({"symbol": key, "bid": n, "x": n}).encode() for n, key in enumerate(picked)]
    assert design.input is not None
    batch = format_of(design.input).decode_batch(pa.array(data, pa.binary()), fields).rows
    batch = batch.append_column("_ts_ms", pa.array(range(200), pa.int64()))
    batch = batch.append_column("_data", pa.array(data, pa.binary()))
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    on_spark = transform.apply(nested(frame, fields.names)).toArrow().sort_by("_ts_ms").to_pylist()
    assert on_spark == transform.arrow(batch).to_pylist()
    assert on_spark
