"""`make demo`: a quote generator → TCP → topic → Spark → topic → TCP, shown live; it stops by itself.

Everything between the two sockets is `gauss run examples/demo/market.toml`; this file is the world around it.
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

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).parent
GAUSS = Path(sys.executable).with_name("gauss")
SYMBOLS = {"BTCUSD": 67_000.0, "ETHUSD": 3_500.0, "SOLUSD": 180.0, "EURUSD": 1.08, "XAUUSD": 2_700.0, "AAPL": 230.0}
FEED, OUT = 9100, 9300
console = Console()


@dataclass
class World:
    """What was sent and what came back."""

    stop: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    received: int = 0
    last: dict[str, float] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)


def generate(world: World, rate: int) -> None:
    """Random walks, `rate` quotes a second in bursts of 10 ms; one in twenty is too wide and is filtered out."""
    prices = dict(SYMBOLS)
    names = list(prices)
    burst = max(1, rate // 100)
    with socket.create_connection(("127.0.0.1", FEED)) as sock:
        due = time.monotonic()
        while not world.stop.is_set():
            lines = []
            for _ in range(burst):
                symbol = random.choice(names)
                prices[symbol] *= 1 + random.gauss(0, 0.0002)
                bid = prices[symbol]
                ask = bid * (1.1 if random.random() < 0.05 else 1.0005)
                now_us = time.time_ns() // 1000
                lines.append(f'{{"symbol":"{symbol}","bid":{bid:.5f},"ask":{ask:.5f},"sent_us":{now_us}}}\n')
            sock.sendall("".join(lines).encode())
            world.sent += burst
            due += 0.01
            time.sleep(max(0.0, due - time.monotonic()))


def consume(world: World) -> None:
    """Reads what comes out and measures how long each quote was under way."""
    with socket.create_connection(("127.0.0.1", OUT)) as sock, sock.makefile("rb", buffering=1 << 16) as lines:
        for line in lines:
            row = json.loads(line)
            world.received += 1
            world.last[row["symbol"]] = row["mid"]
            world.latencies_ms.append((time.time_ns() // 1000 - row["sent_us"]) / 1000)
            if world.stop.is_set():
                return


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def view(world: World, seconds: float) -> Group:
    """The live table: the newest mid price of each symbol, and the flow in one line."""
    table = Table(title="newest mid prices, as they leave Gauss on TCP 9300", title_justify="left")
    for column in ("symbol", "mid"):
        table.add_column(column, justify="right" if column == "mid" else "left", min_width=14)
    for symbol, mid in sorted(world.last.items()):
        table.add_row(symbol, f"{mid:,.4f}")
    recent = world.latencies_ms[-2000:]
    line = (
        f"{seconds:4.0f} s   sent {world.sent:,}   received {world.received:,}   "
        f"latency p50 {percentile(recent, 0.5):.0f} ms, p99 {percentile(recent, 0.99):.0f} ms"
    )
    return Group(
        Text("generator → TCP 9100 → quotes.raw → Spark → quotes.mid → TCP 9300", style="bold"), Text(line), table
    )


def start(data_dir: Path) -> subprocess.Popen[bytes]:
    """`gauss run`, quietly; returns when it says it is ready."""
    command = [str(GAUSS), "run", str(HERE / "market.toml"), "--quiet", "--data-dir", str(data_dir)]
    # The JVM's class archive is kept beside the checkout: the second demo starts in half the time.
    environment = {"GAUSS_CACHE_DIR": str(HERE.parents[1] / ".cache"), **os.environ}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)
    assert run.stdout is not None
    for raw in run.stdout:
        console.print(f"  {raw.decode().rstrip()}")
        if raw.startswith(b"ready"):
            return run
    raise SystemExit(run.wait() or 1)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--rate", type=int, default=5_000, help="quotes a second")
    options.add_argument("--forever", action="store_true")
    chosen = options.parse_args()
    world = World()
    with tempfile.TemporaryDirectory(prefix="gauss-demo-") as data_dir:
        console.print("[bold]Gauss demo[/] starting the pipeline of examples/demo/market.toml")
        run = start(Path(data_dir))
        began = time.monotonic()
        try:
            for target, args in ((consume, (world,)), (generate, (world, chosen.rate))):
                threading.Thread(target=target, args=args, daemon=True).start()
            with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
                while chosen.forever or time.monotonic() - began < chosen.seconds:
                    live.update(view(world, time.monotonic() - began))
                    time.sleep(0.25)
                    if run.poll() is not None:
                        raise SystemExit("the pipeline stopped by itself; see its last lines above")
        except KeyboardInterrupt:
            pass
        finally:
            world.stop.set()
            time.sleep(0.5)
            took = time.monotonic() - began
            os.kill(run.pid, signal.SIGTERM)
            code = run.wait(timeout=30)
    console.print(
        f"[bold]{world.received:,}[/] of {world.sent:,} quotes came out in {took:.0f} s "
        f"({world.received / took:,.0f} per second; the rest were too wide and were filtered by the SQL); "
        f"latency p50 {percentile(world.latencies_ms, 0.5):.0f} ms, p99 {percentile(world.latencies_ms, 0.99):.0f} ms."
    )
    for symbol, mid in sorted(world.last.items()):
        console.print(f"  {symbol:<8} {mid:>14,.4f}")
    if not world.received:
        console.print("[red]nothing came out[/]")
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
