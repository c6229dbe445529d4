"""Processes are killed under examples 5, 9 and 10: the result is that of an undisturbed run, computed by plain Python
from the records of the source topics. Windows are short, so that they close.

`GAUSS_EXAMPLE_KILLS=50` makes it a long run of each example, as it stands and with file topics.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import read_endpoint
from helpers import feeds
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import stays, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = "GAUSS_EXAMPLE_KILLS" in os.environ
KILLS = int(os.environ.get("GAUSS_EXAMPLE_KILLS", "0"))
INTERVALS = {"1s": 1_000, "3s": 3_000}
MARKERS = {"engine": "gauss.stream.engine", "driver": DRIVER, "jvm": "org.apache.spark.deploy"}
PER_SECOND = 200

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.system, pytest.mark.timeout(1200 + 60 * KILLS)]
FILLED = """
[[topics]]
name = "instruments.log"
storage = "file"

[[processors]]
name = "fill"
plugin = "passthrough"
source = { topic = "instruments.log", read = "offset" }
target = { topic = "instruments" }
"""

Row = dict[str, Any]


class Killed:
    """An example with other ports and acknowledging sources; optionally with file topics."""

    def __init__(self, folder: Path, name: str, *, in_files: bool) -> None:
        for each in (name, "schema-maps"):
            shutil.copytree(EXAMPLES / each, folder / each)
        text = (EXAMPLES / name / "pipeline.toml").read_text()
        self.ports = {port: free_port() for port in range(9100, 9104)}
        for before, port in self.ports.items():
            text = text.replace(f"port = {before}", f'ack = "count", port = {port}')
        text = text.replace('"1m", "5m", "1h"', '"1s", "3s"').replace('intervals = ["1m"]', 'intervals = ["1s", "3s"]')
        text = text.replace('window = "5s"', 'window = "2s"')
        # All records are compared at the end, so none may be removed before.
        text = text.replace("storage_size = 50000", "storage_size = 5000000")
        if in_files:
            text = re.sub(r'"memory"\nstorage_config = { storage_size = \d+ }', '"file"', text)
            state = 'name = "ohlc.state"\nstorage = '
            text = text.replace('target = { topic = "instruments" }', 'target = { topic = "instruments.log" }')
            text += FILLED if "instruments.log" in text else ""
            text = text.replace(f'{state}"memory"\nstorage_config = {{ mode = "table", ', f'{state}"file" #')
        self.run = Run(folder / name, f'[spark]\nmaster = "local[2]"\n{text}')
        self.victims = ["worker", "driver", "jvm"] + (["engine"] if in_files else [])
        self.seed = random.randrange(1 << 32)
        self.chance = random.Random(self.seed)

    def feed(self, port: int, record: Callable[[int], bytes]) -> feeds.Counter:
        return feeds.Counter(self.ports[port], PER_SECOND, record)

    def records(self, topic: str) -> list[tuple[int, bytes]]:
        """All records of a topic with their times."""
        rows = map(json.loads, self.run.cli("query", topic, "--json").stdout.splitlines())
        return [(row["ts_ms"], row["data"].encode()) for row in rows]

    def end(self, topic: str) -> int:
        """The number of records of a topic; 0 while there is no answer. Polled rarely, since the machine is busy."""
        time.sleep(0.3)
        try:
            return int(self.run.topic(topic)["end"])
        except OSError:
            return 0

    def says(self, processor: str, phase: str) -> None:
        """Waits until a processor reports a phase before its first results."""

        def told() -> bool:
            time.sleep(0.3)
            try:
                rows = self.run.api("/api/processors")["processors"]
            except OSError:
                return False
            return any(row["name"] == processor and row["detail"].startswith(phase) for row in rows)

        wait_until(told, 240, f"{processor}: {phase}")

    def suffer(self, target: str) -> None:
        """Kills random processes, each kind once at first, and waits for new results after each kill."""
        victims = self.chance.sample(self.victims, len(self.victims))
        if LONG:
            victims += self.chance.choices(victims, k=max(KILLS - len(victims), 0))
        else:  # this restarts Spark, which takes longest
            victims.remove(self.chance.choice(["driver", "jvm"]))
        for number, victim in enumerate(victims):
            time.sleep(self.chance.random() * 2)
            before = wait_until(lambda: self.end(target), 240, "a first result")
            self.kill(victim)
            before = max(before, self.end(target))  # results in flight at the kill
            told = f"results after kill {number} of {victim} (seed {self.seed})"
            print(time.strftime("%H:%M:%S"), told, flush=True)
            wait_until(lambda before=before: self.end(target) > before, 240, told)  # type: ignore[misc]

    def kill(self, victim: str) -> None:
        if victim == "worker":
            self.run.kill_worker(self.chance.choice)
        else:
            self.run.kill(MARKERS[victim])


Make = Callable[..., Killed]


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Make]:
    made: list[Run] = []

    def make(name: str, *, in_files: bool) -> Killed:
        killed = Killed(tmp_path, name, in_files=in_files)
        made.append(killed.run)
        killed.run.start(ready=False)  # the query waits for its first records
        return killed

    yield make
    for run in made:
        run.end()


def variants(*, in_files: bool) -> pytest.MarkDecorator:
    """Both variants in a long run, otherwise the named one."""
    chosen = [False, True] if LONG else [in_files]
    return pytest.mark.parametrize("in_files", chosen, ids=lambda files: "in-files" if files else "as-it-stands")


def candles(quotes: list[tuple[int, bytes]]) -> list[Row]:
    """The expected candles, in plain Python."""
    groups: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for ts_ms, data in quotes:
        quote = json.loads(data)
        for interval, length in INTERVALS.items():
            groups[ts_ms // length * length, quote["symbol"], interval].append(quote["bid"])
    return [
        {
            "ts_ms": start,
            "symbol": symbol,
            "interval": interval,
            "open": bids[0],
            "high": max(bids),
            "low": min(bids),
            "close": bids[-1],
            "volume": len(bids),
        }
        for (start, symbol, interval), bids in sorted(groups.items())
    ]


def quote(number: int) -> bytes:
    return b'{"symbol":"S%d","bid":%d.5}' % (number % 7, number * 7919 % 1000)


def in_table(run: Run) -> list[Row]:
    """The rows of the table, sorted; none while there is no answer."""
    endpoint = read_endpoint(run.data_dir / "clickhouse")
    names = ["ts_ms", "symbol", "interval", "open", "high", "low", "close", "volume"]
    try:
        assert endpoint is not None
        with connect(endpoint) as client:
            rows = client.query(f"SELECT {', '.join(names)} FROM ohlc_1m ORDER BY ts_ms, symbol, interval").result_rows
    except Exception:
        return []
    return [dict(zip(names, row, strict=True)) for row in rows]


def candles_are_right(killed: Killed) -> None:
    """Kills processes, then compares every candle of the table."""
    killed.says("ohlc-builder", "detecting: waits for the first records")
    feed = killed.feed(9100, quote)
    killed.suffer("ohlc.1m")
    assert feed.finish()
    wanted = candles(killed.records("quotes.raw"))
    wait_until(lambda: killed.end("ohlc.1m") >= len(wanted), 240, f"all candles (seed {killed.seed})")
    wait_until(lambda: len(in_table(killed.run)) >= len(wanted), 240, f"all rows (seed {killed.seed})")
    stays(lambda: killed.end("ohlc.1m") == len(wanted), 0.5)
    found = in_table(killed.run)
    assert found == wanted, (killed.seed, [row for row in found if row not in wanted][:5])
    told = {row["name"]: row for row in killed.run.api("/api/processors")["processors"]}
    assert (told["ohlc-builder"]["late"], told["ohlc-builder"]["dead"]) == (0, 0)


@variants(in_files=False)
def test_5_every_candle_is_in_the_table_once_and_right(example: Make, in_files: bool) -> None:
    candles_are_right(example("05-ohlc-to-clickhouse", in_files=in_files))


@variants(in_files=True)
def test_9_every_candle_is_in_the_table_once_and_none_stays_open(example: Make, in_files: bool) -> None:
    killed = example("09-ohlc-with-state", in_files=in_files)
    candles_are_right(killed)
    closed: dict[str, bool] = {}
    for _, data in killed.records("ohlc.state"):
        row = json.loads(data)
        closed[row["window_key"]] = row["closed"]
    assert all(closed.values()), killed.seed
    assert bool(closed) is in_files  # a table removes closed candles, a log keeps them


@variants(in_files=True)
def test_10_every_quote_and_every_pair_comes_out_once(example: Make, in_files: bool) -> None:
    killed = example("10-joins", in_files=in_files)
    feeds.send(killed.ports[9101], b'{"symbol":"S3","name":"Three"}\n')
    wait_until(lambda: killed.end("instruments"), 120, "the table")
    killed.says("enrich-quotes", "loading table instruments")
    feed = {
        9100: killed.feed(9100, quote),
        9102: killed.feed(9102, b'{"order_id":%d,"price":1}'.__mod__),
        # Every fifth order arrives before its trade.
        9103: killed.feed(9103, lambda n: b'{"order_id":%d,"limit":2}' % (n if n % 5 else n + 3 * PER_SECOND)),
    }
    killed.suffer("matched")
    for each in feed.values():
        assert each.finish()
    orders: dict[int, list[int]] = defaultdict(list)
    for ts_ms, data in killed.records("orders"):
        orders[json.loads(data)["order_id"]].append(ts_ms)
    wanted: Counter[bytes] = Counter()
    named: Counter[bytes] = Counter()
    for _, data in killed.records("quotes.raw"):
        named[data[:-1] + b',"name":"Three"}' if b'"S3"' in data else data] += 1
    for ts_ms, data in killed.records("trades"):
        number = json.loads(data)["order_id"]
        near = sum(abs(ts_ms - at) <= 2_000 for at in orders[number])
        if near:
            wanted[b'{"order_id":%d,"price":1,"limit":2}' % number] += near
    total = wanted.total()
    wait_until(lambda: killed.end("quotes.enriched") >= named.total(), 240, f"all quotes (seed {killed.seed})")
    wait_until(lambda: killed.end("matched") >= total, 240, f"all pairs (seed {killed.seed})")
    stays(lambda: (killed.end("quotes.enriched"), killed.end("matched")) == (named.total(), total), 0.5)
    found = Counter(data for _, data in killed.records("quotes.enriched"))
    assert found == named, (killed.seed, list((found - named).items())[:5], list((named - found).items())[:5])
    found = Counter(data for _, data in killed.records("matched"))
    assert found == wanted, (killed.seed, list((found - wanted).items())[:5], list((wanted - found).items())[:5])
