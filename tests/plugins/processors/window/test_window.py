"""aggregator, window and ohlc without Spark: their configs, their lints, and the pre-aggregation in readers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pydantic import ValidationError

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.processor import LintContext
from gauss.contracts.time import EventTime
from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from gauss.model.names import EVENT_MS, INC_COLUMN, OFFSET_COLUMN, SOURCE_COLUMN
from gauss.plugins.processors.aggregator.spec import SPEC as AGGREGATOR
from gauss.plugins.processors.aggregator.transform import Aggregator
from gauss.plugins.processors.ohlc.candle_state import close_windows, restored
from gauss.plugins.processors.ohlc.spec import SPEC as OHLC
from gauss.plugins.processors.ohlc.transform import Ohlc
from gauss.plugins.processors.window.spec import SPEC as WINDOW
from gauss.plugins.processors.window.transform import Windows

INPUT = {"input": {"format": "json"}}
COUNT = {"aggregates": {"n": "count()"}}
SCHEMA = SourceSchema((SourceField("k", FieldType("string")), SourceField("$.o.v", FieldType("int64"))))


def aggregator(**given: Any) -> Aggregator:
    config = AGGREGATOR.validate({**INPUT, "interval": "1s", **given})
    return Aggregator(config)  # type: ignore[arg-type]


def time_of(transform: Aggregator | Windows) -> EventTime:
    time = transform.bind(Schemas()).time
    assert time is not None
    return time


def records(rows: list[tuple[str | None, int | None, int]]) -> pa.RecordBatch:
    """Key, value and event time, as a reader passes them."""
    return pa.RecordBatch.from_pydict(
        {
            "k": pa.array([k for k, _, _ in rows], pa.string()),
            "$.o.v": pa.array([v for _, v, _ in rows], pa.int64()),
            EVENT_MS: pa.array([t for _, _, t in rows], pa.int64()),
            OFFSET_COLUMN: pa.array(range(len(rows)), pa.int64()),
            SOURCE_COLUMN: pa.array([0] * len(rows), pa.int32()),
            INC_COLUMN: pa.array([7] * len(rows), pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("spec", "given", "fault"),
    [
        (AGGREGATOR, {"interval": "1s", "aggregates": {"n": "median(.v)"}}, "found .median"),
        (AGGREGATOR, {"interval": "1s", "aggregates": {"n": "sum()"}}, "expected count"),
        (AGGREGATOR, {"interval": "1s", "aggregates": {}}, "at least 1"),
        (AGGREGATOR, {"interval": "0s", **COUNT}, "more than 0"),
        (AGGREGATOR, {"interval": "1s", "idle_timeout": "1s", **COUNT}, "needs `event_time_field`"),
        (WINDOW, {"type": "tumbling", **COUNT}, "needs `size`"),
        (WINDOW, {"type": "session", "gap": "1s", "size": "1s", **COUNT}, "takes no `size`"),
        (WINDOW, {"type": "sliding", "size": "1s", "slide": "2s", **COUNT}, "expected `slide` between"),
        (OHLC, {"intervals": []}, "at least 1"),
        (OHLC, {"intervals": ["60s", "1m"]}, "each interval once"),
        (OHLC, {"intervals": ["x"]}, "expected a duration"),
        (OHLC, {"intervals": ["1m"], "state_format": "json"}, "needs `state_topic`"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(spec: Any, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        spec.validate({**INPUT, **given})


def test_lints_name_missing_fields_and_doubled_columns() -> None:
    context = LintContext(("k", "$.o.v"))
    given = {**INPUT, "interval": "1s", "group_by": ["k", "a"], "event_time_field": "t"}
    config = AGGREGATOR.validate({**given, "aggregates": {"k": "sum(.b)", "window_end": "count()"}})
    assert AGGREGATOR.lint is not None
    faults = "\n".join(AGGREGATOR.lint(config, context))
    for part in (
        'no field "a"',
        'no field "b"',
        'no field "t"',
        '"k" would be the name of two',
        '"window_end" is taken',
    ):
        assert part in faults
    assert OHLC.lint is not None
    faults = "\n".join(OHLC.lint(OHLC.validate({"input": {}, "intervals": ["1m"], "key_field": "open"}), context))
    for part in ("needs a format", 'no field "bid"', '"open" is a column that every candle has'):
        assert part in faults


def test_time_defaults_depend_on_whose_time_it_is() -> None:
    assert time_of(aggregator(**COUNT)).watermark_ms == 0
    assert time_of(aggregator(**COUNT, event_time_field=".t")).watermark_ms == 10_000
    sliding = {**INPUT, **COUNT, "type": "sliding", "size": "10s", "slide": "4s"}
    time = time_of(Windows(WINDOW.validate(sliding)))  # type: ignore[arg-type]
    assert (time.span_ms, time.step_ms) == (10_000, 2000)


def test_fields_are_the_schemas_or_doubles_and_what_the_records_have() -> None:
    made = aggregator(group_by=["k"], aggregates={"s": "sum(.o.v)", "f": "first(.o.w)"})
    found = {field.name: field.field_type.name for field in made.bind(Schemas()).fields}
    assert found == {"k": "auto", "$.o.v": "double", "$.o.w": "auto"}
    with pytest.raises(ConfigError, match=r'no field "o\.w"'):
        made.bind(Schemas(SCHEMA))
    text = aggregator(aggregates={"s": "sum(.k)"})
    with pytest.raises(ConfigError, match="expected a field of numbers"):
        text.partial_schema(pa.schema([("k", pa.string())]))


def test_partials_hold_one_row_per_key_and_window() -> None:
    made = aggregator(
        group_by=["k"], aggregates={"n": "count()", "c": "count(.o.v)", "s": "sum(.o.v)", "z": "last(.o.v)"}
    )
    rows = [("a", 5, 1900), ("a", 1, 1200), (None, None, 1500), ("b", 2, 2000), ("a", None, 1950)]
    batch = made.partial(records(rows))
    schema = made.partial_schema(pa.schema([("k", pa.string()), ("$.o.v", pa.int64())]))
    missing = set(schema.names) - set(batch.schema.names)
    assert missing == {"_beat"}
    frame = pl.DataFrame(batch).sort("k", "_end", nulls_last=True)
    assert frame["k"].to_list() == ["a", "b", None]
    assert [stamp.timestamp() for stamp in frame["_end"]] == [2, 3, 2]
    assert [stamp.timestamp() for stamp in frame["_event"]] == [1.95, 2, 1.5]
    counts = [frame[f"_a{place}"].to_list() for place in range(4)]
    assert counts == [[3, 1, 1], [2, 1, 0], [6, 2, None], [None, 2, None]]
    assert [place["off"] for place in frame["_first"]] == [1, 3, 2]
    assert [place["off"] for place in frame["_last"]] == [4, 3, 2]


def test_sessions_get_every_record_by_itself() -> None:
    config = WINDOW.validate(
        {**INPUT, "type": "session", "gap": "1s", "aggregates": {"c": "count(.o.v)", "m": "avg(.o.v)"}}
    )
    batch = Windows(config).partial(records([("a", 5, 10), ("a", None, 20)]))  # type: ignore[arg-type]
    frame = pl.DataFrame(batch)
    assert frame.select("_a0", "_a1", "_n1").rows() == [(1, 5, 1), (0, None, 0)]
    assert "_end" not in frame.columns


def test_the_largest_of_floats_is_nan_wherever_batches_are_cut() -> None:
    made = aggregator(aggregates={"hi": "max(.v)", "lo": "min(.v)"})
    rows = records([("a", 1, 0), ("a", 2, 1)])
    batch = rows.append_column("v", pa.array([float("nan"), 1.0]))
    frame = pl.DataFrame(made.partial(batch))
    assert frame["_a0"].is_nan().all() and frame["_a1"].to_list() == [1.0]


def test_open_candles_close_once_and_become_partials_again() -> None:
    made = Ohlc(OHLC.validate({**INPUT, "intervals": ["1s"], "key_field": "k", "price_field": "o.v"}))  # type: ignore[arg-type]
    schema = made.state_schema(pa.schema([("k", pa.string()), ("$.o.v", pa.int64())]))

    def row(key: str, end: int, price: int) -> dict[str, Any]:
        place = {f"{side}_{part}": 0 for side in ("first", "last") for part in ("ts", "source", "inc", "offset")}
        prices = dict.fromkeys(("open", "high", "low", "close"), price)
        named = {"window_key": f"{key}|1s|{end}", "key": key, "interval": "1s", "window_end": end}
        return {**named, **prices, "volume": 1, **place, "closed": False}

    before = pa.Table.from_pylist([row("a", 1000, 1), row("b", 2000, 2)], schema)
    changed = pa.Table.from_pylist([row("b", 2000, 3), row("c", 3000, 4)], schema)
    done = close_windows(before, changed, 2000, "k", {"1s": 1000})
    assert [(each["k"], each["ts_ms"], each["close"]) for each in done.results.to_pylist()] == [
        ("a", 0, 1),
        ("b", 1000, 3),
    ]
    told = {each["window_key"]: each["closed"] for each in done.changes.to_pylist()}
    assert told == {"a|1s|1000": True, "b|1s|2000": True, "c|1s|3000": False}
    assert done.open.column("key").to_pylist() == ["c"]
    partials = restored(done.open, ["1s"])
    assert partials.column("open").to_pylist() == [4]
    assert restored(done.open, ["1m"]).num_rows == 0
