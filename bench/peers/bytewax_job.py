"""Bytewax: the two jobs over a file of JSON lines. Arguments: derive | ohlc, the file. Prints records and seconds."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

ALIGNED = datetime(2023, 1, 1, tzinfo=UTC)


class Nowhere(DynamicSink[Any]):
    """Takes everything, keeps nothing."""

    class Part(StatelessSinkPartition[Any]):
        def write_batch(self, items: list[Any]) -> None:
            pass

    def build(self, _step: str, _worker: int, _count: int) -> Part:
        return self.Part()


def derive(rows: Any) -> Any:
    kept = op.filter("kept", rows, lambda row: row["bid"] > 66.6)
    made = op.map("made", kept, lambda row: {**row, "mid": (row["bid"] + row["ask"]) / 2})
    return op.map("written", made, json.dumps)


def add(candle: list[float], row: dict[str, Any]) -> list[float]:
    bid = row["bid"]
    if not candle:
        return [bid, bid, bid, bid, 1]
    return [candle[0], max(candle[1], bid), min(candle[2], bid), bid, candle[4] + 1]


def merge(first: list[float], second: list[float]) -> list[float]:
    return [first[0], max(first[1], second[1]), min(first[2], second[2]), second[3], first[4] + second[4]]


def ohlc(rows: Any) -> Any:
    keyed = op.key_on("keyed", rows, lambda row: row["symbol"])
    clock = EventClock(lambda row: datetime.fromtimestamp(row["ts"] / 1000, UTC), timedelta(0))
    windower = TumblingWindower(length=timedelta(seconds=1), align_to=ALIGNED)
    found = fold_window("candles", keyed, clock, windower, list, add, merge)
    return op.map("written", found.down, json.dumps)


def main(job: str, path: str) -> None:
    with Path(path).open("rb") as lines:
        count = sum(1 for _ in lines)
    flow = Dataflow("peer")
    rows = op.map("read", op.input("lines", flow, FileSource(path, batch_size=1000)), json.loads)
    op.output("out", {"derive": derive, "ohlc": ohlc}[job](rows), Nowhere())
    begun = time.perf_counter()
    run_main(flow)
    print(count, time.perf_counter() - begun)


main(*sys.argv[1:])
