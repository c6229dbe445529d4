"""ohlc on Spark: readers make candles of what they decode, Spark merges those of the same key and interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.time import DELAY_MARK, ClosedWindows
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import BEAT, END, EVENT, EVENT_MS, INC_COLUMN, OFFSET_COLUMN, SOURCE_COLUMN, TS_MS_COLUMN
from gauss.model.units import duration_ms
from gauss.plugins.processors.aggregates import output_name
from gauss.plugins.processors.fields import column_name, path, plain
from gauss.plugins.processors.ohlc.spec import OhlcConfig
from gauss.plugins.processors.windowing import FIRST, LAST, as_batch, ordered, reduced, stamp, sum_type

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

KEY = "_key"
INTERVAL = "_interval"
"""The place of a candle's interval in the config."""
PLACES = (("event", "ts"), ("source", "source"), ("inc", "inc"), ("off", "offset"))
"""Parts of a record's place, and what they are called in a row of the state."""
BUFFERS = ("first", "high", "low", "last", "volume")
PRICES = ("open", "high", "low", "close")


class Ohlc:
    """Candles of several intervals in one grouping: each row of it brings the end of its own."""

    def __init__(self, config: OhlcConfig) -> None:
        self._names = config.intervals
        self._lengths = [duration_ms(text) for text in config.intervals]
        self._key, self._price = _dotted(config.key_field), _dotted(config.price_field)
        self._volume = _dotted(config.volume_field) if config.volume_field else ""
        self.key_name = output_name(self._key)
        required = (self._key, self._price)
        self._kept = config.state_topic is not None
        self._time = config.event_time(max(self._lengths), math.gcd(*self._lengths), required)

    def bind(self, schemas: Schemas) -> Traits:
        return Traits(self._fields(schemas.input), columns=self._columns(), time=self._time)

    def _fields(self, schema: SourceSchema | None) -> list[SourceField]:
        """Key, price and volume; without a schema the numbers are doubles."""
        wanted = {self._key: "auto", self._price: "double"} | ({self._volume: "double"} if self._volume else {})
        if schema is None:
            return [SourceField(path(name), FieldType(kind)) for name, kind in wanted.items()]
        known = {plain(field.name): field for field in schema.fields}
        if unknown := [name for name in wanted if name not in known]:
            raise ConfigError(f'the input format has no field "{unknown[0]}"', hint=f"it has: {', '.join(known)}")
        return [known[name] for name in wanted]

    def _columns(self) -> list[str]:
        """What a candle has."""
        return ["ts_ms", self.key_name, "interval", *PRICES, "volume"]

    def partial_schema(self, fields: pa.Schema) -> pa.Schema:
        """A candle that others may be merged with."""
        import pyarrow as pa

        kinds = {plain(field.name): field.type for field in fields}
        at = pa.timestamp("us", "UTC")
        columns = [(KEY, kinds[self._key]), (INTERVAL, pa.int32()), (END, at), (EVENT, at), (BEAT, pa.bool_())]
        columns += [(name, kinds[self._price]) for name in PRICES]
        columns.append(("volume", sum_type("volume", kinds[self._volume]) if self._volume else pa.int64()))
        return pa.schema([*columns, (FIRST, ordered()), (LAST, ordered())])

    def partial(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The candles of some records, which come in the order of their offsets."""
        import polars as pl

        columns = [column_name(records, name) for name in (self._key, self._price)]
        columns += [EVENT_MS, SOURCE_COLUMN, INC_COLUMN, OFFSET_COLUMN]
        columns += [column_name(records, self._volume)] if self._volume else []
        frame = pl.from_arrow(records.select(dict.fromkeys(columns)))
        assert isinstance(frame, pl.DataFrame)
        if not frame[EVENT_MS].is_sorted():
            frame = frame.sort(EVENT_MS, maintain_order=True)
        key, price = pl.col(columns[0]).alias(KEY), pl.col(columns[1])
        parts = [
            stamp(pl.col(EVENT_MS).last()).alias(EVENT),
            price.first().alias("open"),
            reduced(price, "max", records.column(columns[1]).type).alias("high"),
            price.min().alias("low"),
            price.last().alias("close"),
            self._volume_of(records),
            *_places(),
        ]
        found = [
            frame.group_by([key, stamp((pl.col(EVENT_MS) // length + 1) * length).alias(END)])
            .agg(parts)
            .with_columns(pl.lit(place, pl.Int32).alias(INTERVAL))
            for place, length in enumerate(self._lengths)
        ]
        return as_batch(pl.concat(found) if len(found) > 1 else found[0])

    def _volume_of(self, records: pa.RecordBatch) -> pl.Expr:
        import polars as pl

        if not self._volume:
            return pl.len().cast(pl.Int64).alias("volume")
        name = column_name(records, self._volume)
        return reduced(pl.col(name), "sum", records.column(name).type).alias("volume")

    def apply(self, records: DataFrame) -> DataFrame:
        """Candles, each once its interval is closed; its record's time is its end."""
        from pyspark.sql import functions as F

        merged = self._merge(records)
        if self._kept:
            return self._rows(merged)
        names, lengths = (F.array(*map(F.lit, given)) for given in (self._names, self._lengths))
        end, place = F.unix_millis(END), F.col(INTERVAL) + 1
        return merged.select(
            BEAT,
            end.alias(TS_MS_COLUMN),
            (end - F.element_at(lengths, place)).alias("ts_ms"),
            F.col(KEY).alias(self.key_name),
            F.element_at(names, place).alias("interval"),
            F.col("first.open").alias("open"),
            "high",
            "low",
            F.col("last.close").alias("close"),
            "volume",
        )

    def _merge(self, records: DataFrame) -> DataFrame:
        """One row per key, interval and end: `first` and `last` hold a price beside the place of its record."""
        from pyspark.sql import functions as F

        end = F.col(END).alias(END, metadata={DELAY_MARK: self._time.watermark_ms})
        columns = [KEY, INTERVAL, BEAT, "high", "low", "volume"]
        first = F.struct(F.col(FIRST).alias("at"), "open").alias("first")
        last = F.struct(F.col(LAST).alias("at"), "close").alias("last")
        return (
            records.select(*columns, end, first, last)
            .groupBy(KEY, INTERVAL, BEAT, END)
            .agg(
                F.min("first").alias("first"),
                F.max("high").alias("high"),
                F.min("low").alias("low"),
                F.max("last").alias("last"),
                F.sum("volume").alias("volume"),
            )
        )

    def _rows(self, merged: DataFrame) -> DataFrame:
        """Open candles as rows of the state."""
        from pyspark.sql import functions as F

        names, end, place = F.array(*map(F.lit, self._names)), F.unix_millis(END), F.col(INTERVAL) + 1
        interval = F.element_at(names, place)
        places = [
            F.col(f"{side}.at.{part}").alias(f"{side}_{name}") for side in ("first", "last") for part, name in PLACES
        ]
        return merged.select(
            BEAT,
            F.concat_ws("|", F.col(KEY).cast("string"), interval, end.cast("string")).alias("window_key"),
            F.col(KEY).alias("key"),
            interval.alias("interval"),
            end.alias("window_end"),
            F.col("first.open").alias("open"),
            "high",
            "low",
            F.col("last.close").alias("close"),
            "volume",
            *places,
            F.lit(False).alias("closed"),
        )

    def opened(self, state: DataFrame) -> DataFrame:
        """Spark's own state as rows: the buffers of its aggregates stand in their order."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        # Several buffers have the same name; a cast renames them by their places.
        given = state.select("value.*").schema
        names = [*BUFFERS, *(f"more{place}" for place in range(len(given) - len(BUFFERS)))]
        kinds = StructType([StructField(name, field.dataType) for name, field in zip(names, given, strict=True)])
        buffers = F.col("value").cast(kinds).alias("value")
        return self._rows(state.select("key", buffers).select("key.*", "value.*"))

    def state_schema(self, fields: pa.Schema) -> pa.Schema:
        """An open candle with all that is needed to go on with it."""
        import pyarrow as pa

        partial = {field.name: field.type for field in self.partial_schema(fields)}
        volume = partial["volume"]
        columns = [("window_key", pa.string()), ("key", partial[KEY]), ("interval", pa.string())]
        columns += [("window_end", pa.int64()), *((name, partial[name]) for name in PRICES), ("volume", volume)]
        kinds = {"source": pa.int32()}
        columns += [(f"{side}_{name}", kinds.get(name, pa.int64())) for side in ("first", "last") for _, name in PLACES]
        return pa.schema([*columns, ("closed", pa.bool_())])

    def restored(self, rows: pa.Table) -> pa.RecordBatch:
        """Rows of the state as partials; those of intervals that are no longer asked for stay where they are."""
        from gauss.plugins.processors.ohlc.candle_state import restored

        return restored(rows, list(self._names))

    def close_windows(self, rows: pa.Table, changed: pa.Table, watermark_ms: int) -> ClosedWindows:
        """Candles whose end is not behind the watermark."""
        from gauss.plugins.processors.ohlc.candle_state import close_windows

        lengths = dict(zip(self._names, self._lengths, strict=True))
        return close_windows(rows, changed, watermark_ms, self.key_name, lengths)


def _dotted(name: str) -> str:
    return plain(name).removeprefix(".")


def _places() -> list[pl.Expr]:
    """Where the first and the last record of a group stand."""
    import polars as pl

    columns = {"event": EVENT_MS, "source": SOURCE_COLUMN, "inc": INC_COLUMN, "off": OFFSET_COLUMN}
    found = []
    for name in (FIRST, LAST):
        parts = [getattr(pl.col(column), name[1:])().alias(part) for part, column in columns.items()]
        parts.insert(3, pl.lit(0, pl.Int32).alias("part"))
        found.append(pl.struct(*parts).alias(name))
    return found
