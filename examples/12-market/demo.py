"""`make demo`: a market with a feed that repeats itself, shown live while it runs; it stops by itself.

Everything between the sockets is `gauss run examples/12-market`; this file is the world around it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clickhouse_connect
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

HERE = Path(__file__).parent
GAUSS = Path(sys.executable).with_name("gauss")
SYMBOLS = {"BTCUSD": 67_000.0, "ETHUSD": 3_500.0, "SOLUSD": 180.0, "EURUSD": 1.08, "XAUUSD": 2_700.0, "AAPL": 230.0}
FEED, VIEW = 9100, 9200
TWICE = 0.05
PATIENCE = 240  # seconds for the first candle on a slow machine
CANDLES = """SELECT symbol, argMax(open, ts_ms), argMax(high, ts_ms), argMax(low, ts_ms), argMax(close, ts_ms),
    argMax(volume, ts_ms), count(), sum(volume) FROM candles WHERE interval = '1s' GROUP BY symbol ORDER BY symbol"""
console = Console()


@dataclass
class World:
    """What was sent and what came back."""

    stop: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    repeated: int = 0
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    delays_ms: list[float] = field(default_factory=list)
    candles: list[tuple[Any, ...]] = field(default_factory=list)


def generate(world: World, rate: int) -> None:
    """Random walks, `rate` quotes a second in bursts of 10 ms; one in twenty is sent twice."""
    prices = dict(SYMBOLS)
    burst = max(1, rate // 100)
    with socket.create_connection(("127.0.0.1", FEED)) as sock:
        due = time.monotonic()
        while not world.stop.is_set():
            lines = []
            now = time.time_ns() // 1_000_000
            for _ in range(burst):
                world.sent += 1
                symbol = random.choice(list(prices))
                prices[symbol] *= 1 + random.gauss(0, 0.0002)
                bid, ask = prices[symbol], prices[symbol] * 1.0005
                quote = f'{{"id":{world.sent},"symbol":"{symbol}","bid":{bid:.5f},"ask":{ask:.5f},"ts":{now}}}\n'
                lines.append(quote)
                if random.random() < TWICE:
                    lines.append(quote)
                    world.repeated += 1
            sock.sendall("".join(lines).encode())
            due += 0.01
            time.sleep(max(0.0, due - time.monotonic()))


def watch(world: World) -> None:
    """The live table, change by change, over WebSocket."""
    with connect(f"ws://127.0.0.1:{VIEW}/") as changes:
        try:
            for message in changes:
                row = json.loads(message)
                world.live[row["symbol"]] = row
                world.delays_ms.append(time.time() * 1000 - row["ts"])
                if world.stop.is_set():
                    return
        except ConnectionClosed:
            pass


def ask(world: World, url: str) -> None:
    """The newest candle of each symbol, asked of ClickHouse as anybody may."""
    client = clickhouse_connect.get_client(dsn=url)
    while not world.stop.is_set():
        try:
            world.candles = [tuple(row) for row in client.query(CANDLES).result_rows]
        except clickhouse_connect.driver.exceptions.DatabaseError:  # the table comes with its first query
            pass
        time.sleep(1)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def prices(world: World) -> Table:
    """The live table."""
    table = Table(title=f"quotes.live, over WebSocket on {VIEW}", title_justify="left")
    for column in ("symbol", "name", "class", "bid", "ask"):
        table.add_column(column, justify="right" if column in ("bid", "ask") else "left", min_width=8)
    for symbol, row in sorted(world.live.items()):
        table.add_row(symbol, row["name"], row["class"], f"{row['bid']:,.4f}", f"{row['ask']:,.4f}")
    return table


def candles(world: World) -> Table:
    """The newest candles."""
    table = Table(title="candles of one second, in ClickHouse: the newest of each symbol", title_justify="left")
    for column in ("symbol", "open", "high", "low", "close", "volume", "candles so far", "quotes in them"):
        table.add_column(column, justify="left" if column == "symbol" else "right")
    for symbol, *values, volume, count, quotes in world.candles:
        table.add_row(symbol, *(f"{value:,.4f}" for value in values), *(f"{n:,}" for n in (volume, count, quotes)))
    return table


def view(world: World, seconds: float) -> Group:
    recent = world.delays_ms[-2000:]
    path = "feed → TCP 9100 → dedup → enrich → { live table → WebSocket · archive · candles → ClickHouse }"
    line = (
        f"{seconds:4.0f} s   sent {world.sent:,}, of which {world.repeated:,} twice   "
        f"feed → WebSocket p50 {percentile(recent, 0.5):.0f} ms, p99 {percentile(recent, 0.99):.0f} ms"
    )
    return Group(Text(path, style="bold"), Text(line), prices(world), candles(world))


def start(data_dir: Path) -> subprocess.Popen[bytes]:
    """`gauss run`, quietly; returns when it says it is ready."""
    command = [str(GAUSS), "run", str(HERE), "--quiet", "--data-dir", str(data_dir)]
    # The JVM's class archive is kept beside the checkout: the second demo starts in half the time.
    environment = {"GAUSS_CACHE_DIR": str(HERE.parents[1] / ".cache"), **os.environ}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)
    assert run.stdout is not None
    for raw in run.stdout:
        console.print(f"  {raw.decode().rstrip()}")
        if raw.startswith(b"ready"):
            link = next(word for word in raw.decode().split() if word.startswith("http"))
            console.print(f"[bold]Watch it in a browser:[/] {link}", soft_wrap=True)
            return run
    raise SystemExit(run.wait() or 1)


def database(data_dir: Path) -> str:
    """Where the embedded ClickHouse is, as `gauss db url` prints it for any client."""
    command = [str(GAUSS), "db", "url", "clickhouse", "--data-dir", str(data_dir)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--rate", type=int, default=2_000, help="quotes a second")
    options.add_argument("--forever", action="store_true")
    chosen = options.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job is started with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    world = World()
    with tempfile.TemporaryDirectory(prefix="gauss-demo-") as folder:
        data_dir = Path(folder)
        console.print("[bold]Gauss demo[/] starting the pipeline of examples/12-market")
        run = start(data_dir)
        began = time.monotonic()
        try:
            workers = ((watch, (world,)), (ask, (world, database(data_dir))), (generate, (world, chosen.rate)))
            for target, args in workers:
                threading.Thread(target=target, args=args, daemon=True).start()
            with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
                while (
                    chosen.forever
                    or (took := time.monotonic() - began) < chosen.seconds
                    or (not world.candles and took < chosen.seconds + PATIENCE)
                ):
                    live.update(view(world, time.monotonic() - began))
                    time.sleep(0.25)
                    if run.poll() is not None:
                        raise SystemExit("the pipeline stopped by itself; see its last lines above")
        except KeyboardInterrupt:
            pass
        finally:
            world.stop.set()
            time.sleep(1.2)
            os.kill(run.pid, signal.SIGTERM)
            code = run.wait(timeout=30)
    console.print(view(world, time.monotonic() - began))
    if not world.candles:
        console.print("[red]no candle came into ClickHouse[/]")
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
