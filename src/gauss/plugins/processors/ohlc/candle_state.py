"""Open candles that lie in a topic: how they are closed, and how they become partials again."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from gauss.contracts.time import ClosedWindows
from gauss.model.names import END, EVENT, TS_MS_COLUMN
from gauss.plugins.processors.windowing import FIRST, LAST, as_batch, stamp

CANDLE = ("interval", "open", "high", "low", "close", "volume")


def close_windows(
    rows: pa.Table, changed: pa.Table, watermark_ms: int, key_name: str, lengths: dict[str, int]
) -> ClosedWindows:
    """Closes what ends not behind the watermark; what is left is open."""
    before, now = pl.DataFrame(rows), pl.DataFrame(changed)
    every = pl.concat([before.join(now, on="window_key", how="anti"), now])
    is_closed = pl.col("window_end") <= watermark_ms
    closed, left = every.filter(is_closed), every.filter(~is_closed)
    start = pl.col("window_end") - pl.col("interval").replace_strict(lengths, return_dtype=pl.Int64)
    candles = closed.sort("window_end", "key", "interval").select(
        pl.col("window_end").alias(TS_MS_COLUMN), start.alias("ts_ms"), pl.col("key").alias(key_name), *CANDLE
    )
    changes = pl.concat([now.filter(~is_closed), closed.with_columns(closed=pl.lit(value=True))])
    return ClosedWindows(as_batch(candles), _table(changes, rows.schema), _table(left, rows.schema))


def restored(rows: pa.Table, intervals: list[str]) -> pa.RecordBatch:
    """Rows of the state as partials; those of intervals that are no longer asked for stay where they are."""
    frame = pl.DataFrame(rows).filter(pl.col("interval").is_in(intervals))
    places = {text: place for place, text in enumerate(intervals)}
    made = frame.select(
        pl.col("key").alias("_key"),
        pl.col("interval").replace_strict(places, return_dtype=pl.Int32).alias("_interval"),
        stamp(pl.col("window_end")).alias(END),
        stamp(pl.col("last_ts")).alias(EVENT),
        *("open", "high", "low", "close", "volume"),
        *(_place(name) for name in (FIRST, LAST)),
    )
    return as_batch(made)


def _place(name: str) -> pl.Expr:
    side = name[1:]
    return pl.struct(
        pl.col(f"{side}_ts").alias("event"),
        pl.col(f"{side}_source").alias("source"),
        pl.col(f"{side}_inc").alias("inc"),
        pl.lit(0, pl.Int32).alias("part"),
        pl.col(f"{side}_offset").alias("off"),
    ).alias(name)


def _table(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)
