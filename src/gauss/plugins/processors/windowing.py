"""Aggregates over windows, in two steps: readers make partials of what they decode, Spark merges them.

A partial is a row per key and window (of a sliding window: per pane; of a session: per record) with what its records
add up to; its event time is its newest record's, so that the watermark is the same as without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.time import DELAY_MARK, EventTime
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import BEAT, END, EVENT, EVENT_MS, INC_COLUMN, OFFSET_COLUMN, SOURCE_COLUMN, TS_MS_COLUMN
from gauss.plugins.processors.aggregates import Aggregate, output_name
from gauss.plugins.processors.fields import column_name, path, plain

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

FIRST, LAST = "_first", "_last"
"""Places of a partial's first and last record, by which Spark finds the first and the last of all."""
ORDER = ("event", "source", "inc", "part", "off")
NUMERIC = ("sum", "avg", "min", "max")


class Window(NamedTuple):
    """Tumbling: `size`; sliding: `size` and a smaller `slide`; a session: `gap`."""

    size_ms: int = 0
    slide_ms: int = 0
    gap_ms: int = 0

    @property
    def span_ms(self) -> int:
        return self.gap_ms or self.size_ms

    @property
    def pane_ms(self) -> int:
        """The longest stretch that lies wholly in every window that it touches."""
        return math.gcd(self.size_ms, self.slide_ms or self.size_ms)

    @property
    def step_ms(self) -> int:
        """At multiples of which it may close; a session may at any time, and is given some slack."""
        return max(min(self.gap_ms // 4, 1000), 100) if self.gap_ms else self.pane_ms


class Windowed:
    """Keys and aggregates over one window; bounds in ms are in the result as `window_start` and `window_end`."""

    def __init__(self, keys: Sequence[str], aggregates: Sequence[Aggregate], window: Window, time: EventTime) -> None:
        self._keys = [plain(key).removeprefix(".") for key in keys]
        self._aggregates = list(aggregates)
        self._window = window
        self._time = time
        self._ordered = any(each.function in ("first", "last") for each in aggregates)

    def bind(self, schemas: Schemas) -> Traits:
        return Traits(self._fields(schemas.input), columns=self._columns(), time=self._time)

    def _fields(self, schema: SourceSchema | None) -> list[SourceField]:
        """Keys and what is aggregated. Without a schema, numbers are doubles and the rest is as the records have it."""
        wanted = list(dict.fromkeys([*self._keys, *(each.field for each in self._aggregates if each.field)]))
        if schema is not None:
            known = {plain(field.name): field for field in schema.fields}
            if unknown := [name for name in wanted if name not in known]:
                raise ConfigError(f'the input format has no field "{unknown[0]}"', hint=f"it has: {', '.join(known)}")
            return [known[name] for name in wanted]
        numbers = {each.field for each in self._aggregates if each.function in NUMERIC}
        return [SourceField(path(name), FieldType("double" if name in numbers else "auto")) for name in wanted]

    def _columns(self) -> list[str]:
        """Keys, bounds and aggregates."""
        keys = [output_name(key) for key in self._keys]
        return [*keys, "window_start", "window_end", *(each.name for each in self._aggregates)]

    def partial_schema(self, fields: pa.Schema) -> pa.Schema:
        """Keys, window or pane, and one or two columns per aggregate."""
        import pyarrow as pa

        known = {plain(field.name): field for field in fields}
        kinds = {name: field.type for name, field in known.items()}
        stamp = pa.timestamp("us", "UTC")
        columns = [known[key].with_name(output_name(key)) for key in self._keys]
        columns += [(EVENT, stamp), (BEAT, pa.bool_())]
        if not self._window.gap_ms:
            columns.append((END, stamp))
        for place, each in enumerate(self._aggregates):
            kind = kinds.get(each.field)
            columns.append((f"_a{place}", partial_type(each.function, kind)))
            if each.function == "avg":
                columns.append((f"_n{place}", pa.int64()))
        if self._ordered:
            columns += [(FIRST, ordered()), (LAST, ordered())]
        return pa.schema(columns)

    def partial(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The partials of some records, which come in the order of their offsets."""
        import polars as pl

        frame = pl.from_arrow(records)
        assert isinstance(frame, pl.DataFrame)
        if self._ordered and not frame[EVENT_MS].is_sorted():
            frame = frame.sort(EVENT_MS, maintain_order=True)
        keys = [pl.col(column_name(records, key)).alias(output_name(key)) for key in self._keys]
        if self._window.gap_ms:
            columns = [*keys, *self._parts(records, alone=True)]
            made = frame.select(*columns)
        else:
            pane = self._window.pane_ms
            end = stamp((pl.col(EVENT_MS) // pane + 1) * pane).alias(END)
            made = frame.group_by([*keys, end]).agg(self._parts(records, alone=False))
        return as_batch(made)

    def _parts(self, records: pa.RecordBatch, *, alone: bool) -> list[pl.Expr]:
        """What the records of a group add up to, or each by itself."""
        import polars as pl

        event = pl.col(EVENT_MS)
        found = [stamp(event if alone else event.max()).alias(EVENT)]
        for place, each in enumerate(self._aggregates):
            name = column_name(records, each.field) if each.field else EVENT_MS
            column = pl.col(name)
            count = column.is_not_null().cast(pl.Int64) if alone else column.count().cast(pl.Int64)
            value = column if alone else reduced(column, each.function, records.column(name).type)
            found.append((count if each.function == "count" else value).alias(f"_a{place}"))
            if each.function == "avg":
                found.append(count.alias(f"_n{place}"))
        if self._ordered:
            for name in (FIRST, LAST):
                parts = [
                    pl.col(EVENT_MS),
                    pl.col(SOURCE_COLUMN),
                    pl.col(INC_COLUMN),
                    pl.lit(0, pl.Int32),
                    pl.col(OFFSET_COLUMN),
                ]
                if not alone:
                    picked = [part.first() if name == FIRST else part.last() for part in parts]
                    parts = [*picked[:3], pl.lit(0, pl.Int32), picked[4]]
                struct = pl.struct(*(part.alias(key) for part, key in zip(parts, ORDER, strict=True)))
                found.append(struct.alias(name))
        return found

    def apply(self, records: DataFrame) -> DataFrame:
        """The windows of the keys, each once it is closed; its record's time is its end."""
        from pyspark.sql import functions as F

        window, keys = self._window, [output_name(key) for key in self._keys]
        values = [name for name in records.columns if name.startswith(("_a", "_n", FIRST, LAST))]
        quoted = [F.col(f"`{name}`") for name in keys]
        if window.gap_ms:
            session = F.session_window(EVENT, f"{window.gap_ms} milliseconds")
            grouped = records.groupBy(*quoted, BEAT, session.alias(END))
            start, end = F.unix_millis(f"{END}.start"), F.unix_millis(f"{END}.end")
        else:
            marked = self._ends(records.select(*quoted, BEAT, EVENT, END, *values))
            grouped = marked.groupBy(*quoted, BEAT, END)
            end = F.unix_millis(END)
            start = end - window.size_ms
        merged = grouped.agg(*(_merged(each, place).alias(f"_r{place}") for place, each in enumerate(self._aggregates)))
        results = [F.col(f"_r{place}").alias(each.name) for place, each in enumerate(self._aggregates)]
        bounds = [start.alias("window_start"), end.alias("window_end")]
        return merged.select(BEAT, end.alias(TS_MS_COLUMN), *quoted, *bounds, *results)

    def _ends(self, partials: DataFrame) -> DataFrame:
        """The end of its window as a key that closes it: of a pane, one row for each window that it lies in."""
        from pyspark.sql import functions as F

        window = self._window
        others = [F.col(f"`{name}`") for name in partials.columns if name not in (END, EVENT)]
        mark = {DELAY_MARK: self._time.watermark_ms}
        if not window.slide_ms or window.slide_ms == window.size_ms:
            return partials.select(*others, F.col(END).alias(END, metadata=mark))
        pane_end = F.unix_millis(END)
        slide, size = window.slide_ms, window.size_ms
        # The windows that hold a pane end at multiples of `slide` beyond `size`'s own remainder.
        first = F.expr(f"unix_millis({END}) + pmod({size} - unix_millis({END}), {slide})")
        last = pane_end - window.pane_ms + size
        ends = F.when(F.col(BEAT), F.array(pane_end)).otherwise(F.sequence(first, last, F.lit(slide)))
        spread = partials.select(*others, F.explode(ends).alias("_ms"))
        return spread.select(*others, F.timestamp_millis("_ms").alias(END, metadata=mark))


def stamp(millis: pl.Expr) -> pl.Expr:
    """Milliseconds as a timestamp."""
    import polars as pl

    return (millis * 1000).cast(pl.Datetime("us", "UTC"))


def as_batch(frame: pl.DataFrame) -> pa.RecordBatch:
    """A frame's rows in one batch."""
    import polars as pl
    import pyarrow as pa

    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    if frame.height:
        return table.combine_chunks().to_batches()[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)


def ordered() -> pa.DataType:
    """The place of a record among all others."""
    import pyarrow as pa

    return pa.struct([(name, pa.int32() if name in ("source", "part") else pa.int64()) for name in ORDER])


def partial_type(function: str, kind: Any) -> Any:
    """The type of an aggregate of some records."""
    import pyarrow as pa

    if function == "count":
        return pa.int64()
    return sum_type(function, kind) if function in ("sum", "avg") else kind


def sum_type(function: str, kind: pa.DataType) -> pa.DataType:
    """The type in which numbers are added up."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pa.int64()
    if not pa.types.is_floating(kind):
        raise ConfigError(f"{function}: expected a field of numbers, found {kind}")
    return pa.float64()


def reduced(column: pl.Expr, function: str, kind: pa.DataType) -> pl.Expr:
    """What a group's values come to, as Spark would have it."""
    import polars as pl
    import pyarrow as pa

    match function:
        case "sum" | "avg":
            # A sum of nothing is null, as in SQL; of floats, in double as Spark would.
            wide = column.cast(pl.Float64) if pa.types.is_floating(kind) else column
            return pl.when(column.count() > 0).then(wide.sum())
        case "min":
            return column.min()
        case "max":  # NaN is the largest of all for Spark
            return column.nan_max() if pa.types.is_floating(kind) else column.max()
        case "first":
            return column.first()
        case _:
            return column.last()


def _merged(aggregate: Aggregate, place: int) -> Column:
    from pyspark.sql import functions as F

    value = F.col(f"_a{place}")
    match aggregate.function:
        case "count":
            return F.sum(value)
        case "sum":
            return F.sum(value)
        case "avg":
            return F.sum(value) / F.sum(f"_n{place}")
        case "min":
            return F.min(value)
        case "max":
            return F.max(value)
        case "first":
            return F.min_by(value, F.col(FIRST))
        case _:
            return F.max_by(value, F.col(LAST))
