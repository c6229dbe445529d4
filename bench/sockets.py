"""JSON from socket to socket, filtered and derived, in records per second of CPU: Gauss beside Bento.

All of Gauss's processes count, Java and the terminal's too. Bento is built once from its Go module, by exact version.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from bench.latency import MIDS, PLUGINS, train
from bench.spark_json import quotes
from bench.standing import Started

from gauss.model.errors import GaussError

RECORDS, BENTO_RECORDS = 3_000_000, 200_000
KEPT = 989
"""Of a thousand quotes so many pass the filter."""
FEED, OUT = 19100, 19300
SOURCE = Path(__file__).parent / "peers" / "bento"
CONFIG = """
http: {{ enabled: false }}
logger: {{ level: NONE }}
input:
  socket_server: {{ network: tcp, address: "127.0.0.1:{feed}", scanner: {{ lines: {{}} }} }}
pipeline:
  processors:
    - mapping: |
        root = if this.ask - this.bid < 0.05 * this.bid {{
          {{ "symbol": this.symbol, "mid": (this.bid + this.ask) / 2, "ts": this.ts }}
        }} else {{ deleted() }}
output:
  socket: {{ network: tcp, address: "127.0.0.1:{out}", codec: lines }}
"""


def bento() -> Path | None:
    """Its program, built if need be; None where there is no Go."""
    made = SOURCE.parents[2] / ".cache" / "bento"
    if made.exists():
        return made
    if shutil.which("go") is None:
        return None
    print("  builds Bento into .cache, once", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
        # Its own checksums are not at hand where only a proxy of modules is.
        environment = {**os.environ, "GOSUMDB": "off", "GOFLAGS": "-mod=mod -buildvcs=false"}
        built = subprocess.run(["go", "build", "-o", str(made), "."], cwd=folder, env=environment, check=False)
    return made if built.returncode == 0 else None


def rate(records: list[bytes], feed: socket.socket, out: socket.socket, cpu: Callable[[], float]) -> float:
    """Records per second of CPU, once the first tenth has warmed everything up."""
    data, kept = b"\n".join(records) + b"\n", len(records) // 1000 * KEPT
    threading.Thread(target=feed.sendall, args=[data], daemon=True).start()
    lines = first = 0
    begun = 0.0
    while lines < kept:
        lines += out.recv(1 << 20).count(b"\n")
        if not first and lines >= kept // 10:
            begun, first = cpu(), lines
    return (lines - first) * 1000 / KEPT / (cpu() - begun)


def gauss(records: list[bytes], folder: Path) -> float:
    text = (
        MIDS.replace("PLUGIN", PLUGINS["hosted"])
        .replace("sent_us", "ts")
        .replace('storage = "file"', 'storage = "memory"')
    )
    run = Started(text, folder, "gauss")
    with run.connect(OUT) as out, run.connect(FEED) as feed:
        found = rate(records, feed, out, lambda: _cpu(run.family()))
    run.stop()
    return found


def of_bento(program: Path, records: list[bytes], folder: Path) -> float:
    config = folder / "bento.yaml"
    config.write_text(CONFIG.format(feed=FEED, out=OUT))
    with socket.create_server(("127.0.0.1", OUT)) as listener:
        process = subprocess.Popen([str(program), "-c", str(config)])
        try:
            feed, out = _connected(FEED), listener.accept()[0]
            with feed, out:
                return rate(records, feed, out, lambda: _cpu([psutil.Process(process.pid)]))
        finally:
            process.kill()
            process.wait()


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise GaussError(f"nobody listens on {port}") from None
            time.sleep(0.05)


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def run() -> list[dict[str, object]]:
    records = quotes(RECORDS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder, "nothing")
        mine = gauss(records, folder)
        program = bento()
        theirs = of_bento(program, records[:BENTO_RECORDS], folder) if program is not None else None
    rows: list[dict[str, object]] = [
        {"what": "Gauss, all processes", "measured": f"{mine / 1000:.0f}k rec per CPU-second", "aim": ""}
    ]
    if theirs is None:
        return [*rows, {"what": "Bento 1.4", "measured": "no Go here to build it with", "aim": ""}]
    return [
        *rows,
        {"what": "Bento 1.4", "measured": f"{theirs / 1000:.0f}k rec per CPU-second", "aim": ""},
        {"what": "Gauss : Bento", "measured": f"{mine / theirs:.1f}", "aim": "≥ 10"},
    ]
