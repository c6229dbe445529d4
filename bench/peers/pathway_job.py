"""Pathway: the two jobs over a file of JSON lines. Arguments: derive | ohlc, the file. Prints records and seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pathway as pw


class Quote(pw.Schema):
    symbol: str
    bid: float
    ask: float
    ts: int


def derive(rows: pw.Table) -> pw.Table:
    kept = rows.filter(pw.this.bid > 66.6)
    return kept.select(pw.this.symbol, pw.this.bid, pw.this.ask, pw.this.ts, mid=(pw.this.bid + pw.this.ask) / 2)


def ohlc(rows: pw.Table) -> pw.Table:
    windows = rows.windowby(pw.this.ts, window=pw.temporal.tumbling(duration=1000), instance=pw.this.symbol)
    return windows.reduce(
        symbol=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        open=pw.reducers.earliest(pw.this.bid),
        high=pw.reducers.max(pw.this.bid),
        low=pw.reducers.min(pw.this.bid),
        close=pw.reducers.latest(pw.this.bid),
        volume=pw.reducers.count(),
    )


def main(job: str, path: str) -> None:
    with Path(path).open("rb") as lines:
        count = sum(1 for _ in lines)
    rows = pw.io.jsonlines.read(path, schema=Quote, mode="static")
    pw.io.null.write({"derive": derive, "ohlc": ohlc}[job](rows))
    begun = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(count, time.perf_counter() - begun)


main(*sys.argv[1:])
