"""Syncs: Postgres → Postgres beside psql's pipe, bare ADBC, ingestr, dlt, sling and Spark JDBC; to ClickHouse beside
dlt; what checkpoints cost, memory, modules.

Each runs in a process that has copied a small table before, so that no start of a process counts; from ingestr and
sling, which are programs, the time of their `--version` is taken off. All write to the same embedded servers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.connect import modules, peers, recovery
from bench.connect.to_clickhouse import to_clickhouse
from bench.connect.world import ARROW_LANE, ROW_BYTES, Done, World, new_world

ROWS = 1_000_000
MANY_ROWS = 20_000_000
ROUNDS, LONG_S = 3, 10
"""A measure that takes longer is done once."""
DLT_BACKENDS = ("adbc", "connectorx", "pyarrow")
KILLS = ((1, 0.1), (2, 0.5), (3, 0.9))
"""Committed checkpoints at a kill, and the part of an interval that was read behind them."""
Measure = Callable[[], float]
Row = dict[str, object]


def run(rows: int = ROWS, many: int = MANY_ROWS) -> list[Row]:
    with new_world(rows) as world:
        found = measured(
            {
                "pipe": world.pipe,
                "gauss": lambda: world.copied().seconds,
                "arrow": lambda: world.copied(transform=ARROW_LANE).seconds,
                "spark": lambda: world.copied(spark=True).seconds,
                "command": world.command,
                "adbc": partial(peers.adbc, world),
                "ingestr": partial(peers.ingestr, world),
                "sling": partial(peers.sling, world),
                "jdbc": partial(peers.spark_jdbc, world),
                **{f"dlt {each}": partial(peers.dlt, world, each) for each in DLT_BACKENDS},
            }
        )
        return [
            *postgres_rows(Rates(found, rows)),
            clickhouse_row(world),
            *recovery_rows(world),
            *memory_rows(world, many),
            *module_rows(),
        ]


def measured(measures: dict[str, Measure]) -> dict[str, float | str]:
    """Seconds of each, the median of rounds in which each has its turn; or why there are none."""
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    absent: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name, measure in measures.items():
            if name in absent or (seconds[name] and seconds[name][0] > LONG_S):
                continue
            try:
                seconds[name].append(measure())
            except peers.Absent as error:
                absent[name] = str(error)
    return {name: absent.get(name) or statistics.median(seconds[name]) for name in measures}


class Rates:
    """Rows per second of what was measured."""

    def __init__(self, found: dict[str, float | str], rows: int) -> None:
        self.found, self.rows = found, rows

    def best(self, *names: str) -> str:
        """The fastest of some, or the first if none has run."""
        ran = [(seconds, name) for name in names if isinstance(seconds := self.found[name], float)]
        return min(ran)[1] if ran else names[0]

    def shown(self, name: str) -> str:
        seconds = self.found[name]
        if isinstance(seconds, str):
            return seconds
        rate = self.rows / seconds
        return f"{rate / 1e3:.0f}k rows/s, {rate * ROW_BYTES / 1e6:.0f} MB/s"

    def row(self, work: str, mine: str, other: str, shown_as: str, aim: str) -> Row:
        """One measure beside another; without a ratio if either has not run."""
        ours, theirs = self.found[mine], self.found[other]
        ratio = theirs / ours if isinstance(ours, float) and isinstance(theirs, float) else None
        return row(work, self.shown(mine), f"{shown_as}: {self.shown(other)}", ratio, aim)


def row(work: str, shown: str, other: str = "", ratio: float | None = None, aim: str = "") -> Row:
    figure = "" if ratio is None else f"{ratio:.2f}"
    return {"work": work, "measured": shown, "compared with": other, "ratio": figure, "aim": aim}


def postgres_rows(rates: Rates) -> list[Row]:
    equal = "Postgres → Postgres, equal tables"
    dlt = rates.best(*(f"dlt {each}" for each in DLT_BACKENDS))
    shown = {name: str(peers.peer(name, name)) for name in ("ingestr", "sling")}
    jdbc = "Spark JDBC, 2 partitions, batched inserts"
    return [
        rates.row(equal, "gauss", "pipe", "psql binary COPY pipe", "≥ 0.65"),
        rates.row(equal, "gauss", "ingestr", shown["ingestr"], "> 1"),
        rates.row(equal, "gauss", dlt, f"{peers.peer('dlt', 'dlt')} with {dlt.split()[1]}, parquet", "> 1"),
        rates.row(equal, "gauss", "sling", shown["sling"], "> 1"),
        rates.row(equal, "gauss", "jdbc", jdbc, "> 1"),
        rates.row("the same, whole command with its start", "command", "pipe", "psql binary COPY pipe", ""),
        rates.row("the same on Spark, 2 tasks, without the JVM's start", "spark", "jdbc", jdbc, "> 1"),
        rates.row("the same through Arrow", "arrow", "adbc", f"{peers.peer('adbc', 'ADBC')}, 2 threads", "≥ 0.9"),
    ]


def clickhouse_row(world: World) -> Row:
    work = "Postgres → ClickHouse"
    with to_clickhouse(world) as pair:
        if pair is None:
            return row(work, "skipped: no destination clickhouse is registered", aim="> 1")
        names = {f"dlt {each}": partial(pair.dlt, each) for each in DLT_BACKENDS}
        rates = Rates(measured({"gauss": pair.gauss, **names}), world.rows)
    best = rates.best(*names)
    shown = f"{peers.peer('dlt', 'dlt')} with {best.split()[1]}, parquet, made to send its statements by HTTP"
    return rates.row(work, "gauss", best, shown, "> 1")


def recovery_rows(world: World) -> list[Row]:
    interval = world.rows // 10
    found = measured(
        {
            "often": partial(recovery.increment, world, interval),
            "once": partial(recovery.increment, world, None),
        }
    )
    rates = Rates(found, world.rows)
    twice = max(recovery.read_twice(world, interval, after, int(part * interval)) for after, part in KILLS)
    often = f"incremental, a checkpoint each {interval // 1000}k rows"
    return [
        rates.row(often, "often", "once", "one checkpoint", "≥ 0.95"),
        row(
            f"rows read twice after kill −9, those in flight too, worst of {len(KILLS)}",
            f"{twice / 1e3:.0f}k rows",
            f"interval of {interval / 1e3:.0f}k rows",
            twice / interval,
            "≤ 1",
        ),
    ]


def memory_rows(world: World, many: int) -> list[Row]:
    """Of the process that runs the sync, by lane; the rows are not stored at the source."""
    lanes: dict[str, dict[str, Any]] = {"equal tables": {}, "through Arrow": {"transform": ARROW_LANE}}
    return [_memory(world, many, lane, more) for lane, more in lanes.items()]


def _memory(world: World, many: int, lane: str, more: dict[str, Any]) -> Row:
    """The halves of one long run are compared. A short run has a lower peak if the destination never stalls in it: the
    queue between source and destination, which has a bound, does not fill up then."""

    def above(done: Done) -> list[float]:
        return [(peak - done.base_bytes) / 1e6 for peak in done.peaks_bytes]

    (few,) = above(world.copied(world.view(world.rows), world.rows, **more))
    long = world.copied(world.view(many), many, half=many // 2, **more)
    first, second = above(long)
    return row(
        f"memory above base, {lane}, {many / 1e6:.3g}M rows",
        f"{max(first, second):.0f} MB, base {long.base_bytes / 1e6:.0f} MB",
        f"first half: {first:.0f} MB, second: {second:.0f} MB; {world.rows / 1e6:.3g}M rows: {few:.0f} MB",
        second / max(first, 1.0),
        "≤ 150 MB, second half ≤ 1.1 of the first",
    )


def module_rows() -> list[Row]:
    pairs = {"python": ("python", "python"), "source": ("wasm", "python"), "destination": ("python", "wasm")}
    found = measured({name: partial(modules.seconds, *pair) for name, pair in pairs.items()})
    batches = -(-modules.ROWS // modules.batch_rows())

    def shown(name: str) -> str:
        return f"{batches / float(found[name]):.0f} batches/s"

    return [
        row(
            f"Wasm {name}, batches of 1 MB",
            shown(name),
            f"in Python: {shown('python')}",
            float(found["python"]) / float(found[name]),
            "≥ 0.5",
        )
        for name in ("source", "destination")
    ]
