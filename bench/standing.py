"""Standing tasks in number and size: filters of one topic, idle chains, and records from 1 KB to 10 MB."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psutil
from bench.latency import GAUSS, Running, train

FEED, OUT = 19100, 19300
PROBES = 60
HEAD = """
[[formats]]
name = "number"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }
"""


def topic(name: str, config: str = "") -> str:
    return f'\n[[topics]]\nname = "{name}"\nstorage = "memory"\nstorage_config = {{ {config} }}\n'


def edge(name: str, plugin: str, side: str, port: int) -> str:
    framing = "input" if side == "target" else "output"
    end = (
        f'target = {{ topic = "{name}" }}' if side == "target" else f'source = {{ topic = "{name}", read = "offset" }}'
    )
    return (
        f'\n[[processors]]\nname = "{plugin}.{name}"\nplugin = "{plugin}"\n{end}\n'
        f'config = {{ port = {port}, {framing} = {{ framing = "newline", delimiter = "\\n" }} }}\n'
    )


def filter_(name: str, source: str, where: str = ".n >= 0") -> str:
    return (
        f'\n[[processors]]\nname = "{name}"\nplugin = "filter"\nsource = {{ topic = "{source}", read = "offset" }}\n'
        f'target = {{ topic = "{name}" }}\nconfig = {{ input = {{ format = "number" }}, where = "{where}" }}\n'
    )


def end_of(folder: Path, name: str) -> int:
    done = subprocess.run(
        [GAUSS, "topics", "ls", "--json", "--data-dir", str(folder)], capture_output=True, text=True, check=True
    )
    return next(int(row["end"]) for row in json.loads(done.stdout)["topics"] if row["name"] == name)


class Started(Running):
    """A run whose edges and standing tasks are up."""

    def __init__(self, text: str, folder: Path, name: str) -> None:
        config = folder / f"{name}.toml"
        config.write_text(text)
        self.data_dir = folder / name
        super().__init__(config, self.data_dir, folder)
        while True:
            done = subprocess.run(
                [GAUSS, "processors", "ls", "--json", "--data-dir", str(self.data_dir)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode == 0 and all(row["state"] == "running" for row in json.loads(done.stdout)["processors"]):
                return
            time.sleep(0.2)

    def latency(self, feed: socket.socket, out: socket.socket) -> float:
        """Median milliseconds of a record from socket to socket."""
        found = []
        for number in range(PROBES):
            begun = time.perf_counter()
            feed.sendall(b'{"n":%d}\n' % number)
            out.recv(65_536)
            found.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.05)
        return statistics.median(found[10:])


def filters(folder: Path, count: int, records: int) -> dict[str, float]:
    """Independent filters of one topic."""
    names = [f"f{number}" for number in range(count)]
    text = HEAD + topic("in", "storage_size = 500_000") + edge("in", "tcp-source", "target", FEED)
    text += "".join(topic(name) + filter_(name, "in") for name in names)
    text += edge(names[-1], "tcp-sink", "source", OUT)
    run = Started(text, folder, f"filters{count}")
    with run.connect(OUT) as out, run.connect(FEED) as feed:
        feed.sendall(b'{"n":0}\n')
        out.recv(100)
        p50 = run.latency(feed, out)
        time.sleep(3)
        idle, pss = run.idle(), run.pss()
        data = b"".join(b'{"n":%d}\n' % number for number in range(records))
        sending = threading.Thread(target=feed.sendall, args=[data])
        begun, got = time.perf_counter(), 0
        sending.start()
        while got < len(data):
            got += len(out.recv(1 << 20))
        rate = records / (time.perf_counter() - begun)
    run.stop()
    return {"p50": p50, "idle": idle, "pss": pss, "rate": rate}


def idle_chains(folder: Path, count: int) -> tuple[float, float]:
    """Share of a core and MiB of each of some chains with topics of their own, without records."""
    found = []
    for number in (1, count + 1):
        text = HEAD + "".join(
            topic(f"in{n}")
            + edge(f"in{n}", "tcp-source", "target", FEED + n)
            + topic(f"f{n}")
            + filter_(f"f{n}", f"in{n}")
            for n in range(number)
        )
        run = Started(text, folder, f"idle{number}")
        for n in range(number):
            with run.connect(FEED + n) as feed:
                feed.sendall(b'{"n":0}\n')
        time.sleep(8)
        found.append((run.idle(), run.pss()))
        run.stop()
    (idle, before), (cpu, after) = found
    return cpu, (after - before) / count if idle >= 0 else 0.0


def sizes(folder: Path, size: int) -> tuple[float, float]:
    """MB/s from socket to socket through a filter and a file, and the engine's memory beyond its topics' bounds."""
    text = HEAD + topic("in", 'storage_bytes = "64MiB"') + edge("in", "tcp-source", "target", FEED)
    text += topic("f").replace("memory", "file") + filter_("f", "in") + edge("f", "tcp-sink", "source", OUT)
    run = Started(text, folder, f"size{size}")
    record = b'{"n":1,"pad":"' + b"x" * (size - 17) + b'"}\n'
    count = max(400 << 20, 20 * size) // len(record)
    engine = next(p for p in run.family() if "gauss.stream.engine" in " ".join(p.cmdline()) and p.children() == [])
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            info = psutil.Process(engine.pid).memory_info()
            peak[0] = max(peak[0], info.rss - info.shared)

    with run.connect(OUT) as out, run.connect(FEED) as feed:
        feed.sendall(record)
        while not out.recv(1 << 20).endswith(b"\n"):
            pass
        base = engine.memory_info().rss - engine.memory_info().shared
        threading.Thread(target=watch, daemon=True).start()
        chunk = record * max(1, (1 << 20) // len(record))
        each = len(chunk) // len(record)

        def send() -> None:
            for _ in range(count // each):
                feed.sendall(chunk)

        sending = threading.Thread(target=send)
        begun, got, total = time.perf_counter(), 0, count // each * len(chunk)
        sending.start()
        while got < total:
            got += len(out.recv(1 << 20))
        seconds = time.perf_counter() - begun
    ended.set()
    run.stop()
    return total / seconds / 1e6, (peak[0] - base) / 2**20


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def row(what: str, measured: str, aim: str = "") -> None:
        rows.append({"what": what, "measured": measured, "aim": aim})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, "nothing")
        for count, aims in ((5, ("", "", "", "")), (60, ("≤ 100 ms", "< 10 %", "≤ 1.2 GB", "≥ 50k"))):
            found = filters(folder, count, 2_000_000 // max(count // 5, 1))
            row(f"{count} filters of one topic: p50", f"{found['p50']:.0f} ms", aims[0])
            row(f"{count} filters of one topic: idle", f"{100 * found['idle']:.1f} % of a core", aims[1])
            row(f"{count} filters of one topic: memory", f"{found['pss']:.0f} MiB", aims[2])
            row(f"{count} filters of one topic: source records", f"{found['rate'] / 1000:.0f}k rec/s", aims[3])
        cpu, each = idle_chains(folder, 20)
        row("21 idle chains", f"{100 * cpu:.1f} % of a core, {each:.1f} MiB each", "< 5 %, ≤ 15 MB")
        for size in (1_000, 100_000, 1_000_000, 10_000_000):
            speed, memory = sizes(folder, size)
            row(f"records of {size:,} bytes", f"{speed:.0f} MB/s, engine + {memory:.0f} MiB", "≥ 200 MB/s, ≤ 320 MiB")
    return rows
