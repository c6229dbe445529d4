"""A whole `gauss run`: how soon it is up, how long a record is under way, what it costs to stand idle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

GAUSS = str(Path(sys.executable).with_name("gauss"))
RATE, SECONDS = 1_000, 20

PLAIN = """
[[topics]]
name = "raw"
storage = "memory"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "raw" }
config = { port = 19100, input = { framing = "newline", delimiter = "\\n" } }

[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "raw", read = "offset" }
config = { port = 19300, output = { framing = "newline", delimiter = "\\n" } }
"""


MIDS = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [
    { name = "symbol", type = "string" },
    { name = "bid", type = "double" },
    { name = "ask", type = "double" },
    { name = "sent_us", type = "int64" },
] }

[[topics]]
name = "quotes.raw"
storage = "memory"
storage_config = { storage_size = 500_000 }

[[topics]]
name = "quotes.mid"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "quotes.raw" }
config = { port = 19100, input = { framing = "newline", delimiter = "\\n" } }

[[processors]]
name = "mids"
source = { topic = "quotes.raw", read = "offset" }
target = { topic = "quotes.mid" }
PLUGIN

[[processors]]
name = "out"
plugin = "tcp-sink"
source = { topic = "quotes.mid", read = "offset" }
config = { port = 19300, output = { framing = "newline", delimiter = "\\n" } }
"""


PLUGINS = {
    "hosted": """plugin = "expression"
config = { input = { format = "quote" },
    program = "select(.ask - .bid < 0.05 * .bid) | {symbol, mid: (.bid + .ask) / 2, sent_us}" }""",
    "sql": """plugin = "sql"
config = { input = { format = "quote" },
    query = "SELECT symbol, (bid + ask) / 2 AS mid, sent_us FROM input WHERE ask - bid < 0.05 * bid" }""",
}


class Running:
    """`gauss run` and the clock since it was started."""

    def __init__(self, config: Path, data_dir: Path, cache: Path) -> None:
        self.began = time.monotonic()
        command = [GAUSS, "run", str(config), "--quiet", "--data-dir", str(data_dir)]
        environment = {**os.environ, "GAUSS_CACHE_DIR": str(cache)}
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)

    def connect(self, port: int) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"gauss run ended with {self.process.returncode}") from None
                time.sleep(0.01)

    def first_record(self, line: bytes) -> float:
        """Seconds from the start of the command until a record has come out at the other end."""
        with self.connect(19300) as out, self.connect(19100) as feed:
            feed.sendall(line)
            out.recv(1)
        return time.monotonic() - self.began

    def cost(self, marker: str, seconds: float = 5.0) -> tuple[float, float]:
        """Share of a core and MiB of one part, standing idle."""
        part = next(
            p for p in self.family() if marker in " ".join(p.cmdline()) and "guard" not in " ".join(p.cmdline())
        )
        before = sum(part.cpu_times()[:2])
        time.sleep(seconds)
        return (sum(part.cpu_times()[:2]) - before) / seconds, part.memory_info().rss / 2**20

    def family(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]

    def pss(self) -> float:
        """MiB of all its processes, shared pages counted once."""
        return sum(process.memory_full_info().pss for process in self.family()) / 2**20

    def idle(self, seconds: float = 10.0) -> float:
        """Share of a core of all its processes."""
        before = {process.pid: sum(process.cpu_times()[:2]) for process in self.family()}
        time.sleep(seconds)
        return sum(sum(p.cpu_times()[:2]) - before.get(p.pid, 0.0) for p in self.family()) / seconds

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def train(cache: Path, *uses: str) -> None:
    """Makes Java's class archives, which a first run would make in the background."""
    for use in uses:
        subprocess.run(
            [sys.executable, "-m", "gauss.spark.archive", str(cache / "training"), use],
            env={**os.environ, "GAUSS_CACHE_DIR": str(cache)},
            check=True,
        )


def quote() -> bytes:
    return b'{"symbol":"BTCUSD","bid":50000.5,"ask":50010.5,"sent_us":%d}\n' % (time.time_ns() // 1000)


def latencies(run: Running) -> list[float]:
    """Milliseconds from the feeding socket to the reading one, RATE records a second."""
    found: list[float] = []
    done = threading.Event()

    def read() -> None:
        with run.connect(19300) as out, out.makefile("rb") as lines:
            for line in lines:
                found.append(time.time_ns() / 1e6 - json.loads(line)["sent_us"] / 1e3)
                if done.is_set():
                    return

    threading.Thread(target=read, daemon=True).start()
    with run.connect(19100) as feed:
        due = time.monotonic()
        for _ in range(RATE * SECONDS // 10):
            feed.sendall(b"".join(quote() for _ in range(10)))
            due += 10 / RATE
            time.sleep(max(0.0, due - time.monotonic()))
    time.sleep(1.5)
    done.set()
    return sorted(found[RATE * 5 :])  # the first five seconds warm the JVM


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def row(what: str, measured: str, aim: str) -> None:
        rows.append({"what": what, "measured": measured, "aim": aim})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = folder / "plain.toml"
        plain.write_text(PLAIN)
        mids = {kind: folder / f"{kind}.toml" for kind in PLUGINS}
        for kind, path in mids.items():
            path.write_text(MIDS.replace("PLUGIN", PLUGINS[kind]))
        running = Running(plain, folder / "plain", folder)
        first = running.first_record(b"0123456789\n")
        row("first record without Spark", f"{first:.2f} s", "≤ 1.5 s")
        cpu, memory = running.cost("gauss.stream.engine")
        row("engine idle", f"{100 * cpu:.1f} % of a core, {memory:.0f} MiB", "< 5 %, < 200 MB")
        cpu, memory = running.cost("/gauss")
        row("control idle", f"{100 * cpu:.1f} % of a core, {memory:.0f} MiB", "< 200 MB")
        running.stop()
        running = Running(mids["hosted"], folder / "cold", folder)
        row("first record through a hosted chain, cold", f"{running.first_record(quote()):.1f} s", "")
        running.stop()
        train(folder, "nothing", "columns")
        for kind, aims in (("hosted", ("≤ 6 s", "≤ 650 MiB", "≤ 20 ms", "≤ 100 ms")), ("sql", ("≤ 10 s", "", "", ""))):
            running = Running(mids[kind], folder / kind, folder)
            row(f"first record through Spark, warm, {kind}", f"{running.first_record(quote()):.1f} s", aims[0])
            time.sleep(5)
            row(f"the whole run, {kind}", f"{running.pss():.0f} MiB", aims[1])
            under_way = latencies(running)
            p50, p99 = under_way[len(under_way) // 2], under_way[int(len(under_way) * 0.99)]
            row(f"TCP → Spark → TCP at {RATE:,} rec/s, {kind}, p50", f"{p50:.0f} ms", aims[2])
            row(f"TCP → Spark → TCP at {RATE:,} rec/s, {kind}, p99", f"{p99:.0f} ms", aims[3])
            running.stop()
    return rows
