"""The columns of a result must fit the output format: one rule for every format, for the check and for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from gauss.config.spec import Pipeline
from gauss.contracts.field_types import arrow_schema
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError
from gauss.stream.driver.planning.format_fit import can_write, misfits
from gauss.stream.driver.planning.refs import FormatRef
from gauss.stream.driver.planning.writes import ResultWrite
from gauss.stream.driver.queries.compile import design
from gauss.stream.driver.queries.sink import stage_batch
from gauss.stream.graph import build_graph
from helpers.format_kinds import WITH_SCHEMA, format_config, format_ref

CANDLE = {"ts_ms": "int64", "symbol": "string", "open": "double", "high": "double"}
CANDLE |= {"low": "double", "close": "double", "volume": "int64"}
ROW = {"ts_ms": 0, "symbol": "A", "open": 1.0, "high": 2.0, "low": 0.5, "close": 1.5, "volume": 3}
OHLC = ("ohlc", {"intervals": ["1m"]})
WINDOW = ("window", {"group_by": ["symbol"], "aggregates": {"n": "count()"}, "type": "tumbling", "size": "1s"})
AGGREGATOR = ("aggregator", {"group_by": ["symbol"], "aggregates": {"n": "count()"}, "interval": "1s"})
COUNTED = {"symbol": "string", "n": "int64"}


def pipeline(plugin: str, config: dict[str, Any], formats: list[dict[str, Any]], **io: str) -> Pipeline:
    sides = {side: {"format": name} for side, name in io.items()}
    entry = {"name": "p", "plugin": plugin, "source": {"topic": "in", "read": "offset"}, "target": {"topic": "out"}}
    topics = [{"name": name, "storage": "memory"} for name in ("in", "out")]
    given = {"formats": formats, "topics": topics, "processors": [{**entry, "config": {**config, **sides}}]}
    return Pipeline.model_validate(given)


def judged(made: Pipeline) -> tuple[list[str], str]:
    """The faults found by the check and by the design of a run."""
    told = [error.message for _, error in misfits(made, build_graph(made))]
    try:
        design(made, made.processors[0])
    except ConfigError as error:
        return told, error.message
    return told, ""


@pytest.mark.parametrize("plugin", WITH_SCHEMA)
@pytest.mark.parametrize(
    ("processor", "fields"), [(OHLC, CANDLE), (WINDOW, COUNTED), (AGGREGATOR, COUNTED)], ids=["ohlc", "window", "agg"]
)
def test_a_schema_that_lacks_a_column_of_the_result_fits(
    plugin: str, processor: tuple[str, dict[str, Any]], fields: dict[str, str], tmp_path: Path
) -> None:
    out = {"name": "out", "plugin": plugin, "config": format_config(plugin, tmp_path, fields)}
    assert judged(pipeline(*processor, [out], input="json", output="out")) == ([], "")


@pytest.mark.parametrize("plugin", WITH_SCHEMA)
@pytest.mark.parametrize(
    ("processor", "fields"), [(OHLC, CANDLE), (WINDOW, COUNTED), (AGGREGATOR, COUNTED)], ids=["ohlc", "window", "agg"]
)
def test_a_schema_with_a_field_that_the_result_lacks_is_refused_by_check_and_run_alike(
    plugin: str, processor: tuple[str, dict[str, Any]], fields: dict[str, str], tmp_path: Path
) -> None:
    out = {"name": "out", "plugin": plugin, "config": format_config(plugin, tmp_path, {**fields, "vwap": "double"})}
    (checked,), run = judged(pipeline(*processor, [out], input="json", output="out"))
    assert checked == run == 'processor "p" gives no value for the field vwap of its output format'


@pytest.mark.parametrize("plugin", [name for name in WITH_SCHEMA if name not in ("json", "msgpack")])
def test_an_input_format_that_cannot_hold_the_result_is_refused_where_no_output_is_named(
    plugin: str, tmp_path: Path
) -> None:
    fields = {"symbol": "string", "bid": "double"}
    given = {"name": "in", "plugin": plugin, "config": format_config(plugin, tmp_path, fields)}
    (checked,), run = judged(pipeline(*OHLC, [given], input="in"))
    assert checked == run
    assert "needs an output format" in checked
    assert "ts_ms" in checked


@pytest.mark.parametrize("plugin", ["json", "msgpack"])
def test_a_format_of_any_fields_takes_a_result_where_no_output_is_named(plugin: str, tmp_path: Path) -> None:
    fields = {"symbol": "string", "bid": "double"}
    given = {"name": "in", "plugin": plugin, "config": format_config(plugin, tmp_path, fields)}
    assert judged(pipeline(*OHLC, [given], input="in")) == ([], "")


@pytest.mark.parametrize("plugin", WITH_SCHEMA)
def test_columns_that_the_output_format_lacks_are_left_out(plugin: str, tmp_path: Path) -> None:
    ref = msgspec.structs.replace(format_ref(plugin, tmp_path, CANDLE), projects=True)
    rows = pa.RecordBatch.from_pylist([{"_ts_ms": 7, **ROW, "interval": "1m"}])
    letters: list[Letter] = []
    staged = stage_batch(rows, ResultWrite("f", "p", 1, "t", ref), letters)
    assert letters == []
    made = ref.build()
    schema = made.schema()
    assert schema is not None
    assert made.decode_batch(staged.column("data"), arrow_schema(schema.fields)).rows.to_pylist() == [ROW]
    assert b"interval" not in staged.column("data")[0].as_py()


def test_an_inputs_own_format_keeps_columns_that_its_fields_do_not_name(tmp_path: Path) -> None:
    ref = format_ref("json", tmp_path, {"symbol": "string"})
    staged = stage_batch(pa.record_batch({"a": [1]}), ResultWrite("f", "p", 1, "t", ref), [])
    assert staged.column("data").to_pylist() == [b'{"a":1}']


def test_a_column_of_objects_is_kept_where_the_schema_names_a_field_inside_it() -> None:
    fields = [{"name": "$.order.id", "type": "int64"}]
    ref = FormatRef("json", {"fields": fields}, projects=True)
    can_write("p", ["order"], None, ref)
    staged = stage_batch(
        pa.RecordBatch.from_pylist([{"order": {"id": 1}, "more": 2}]),
        ResultWrite("f", "p", 1, "t", ref),
        [],
    )
    assert staged.column("data").to_pylist() == [b'{"order":{"id":1}}']
