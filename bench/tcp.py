"""TCP → topic → TCP against a bare recv/send loop: the same bytes, the same machine, one after the other.

The middle is a process of its own; feeder and receiver share this one. `MiB/CPU-s` is what the middle moves per second
of its own processor time, which noise on other cores does not touch.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 2.0
BLOCK = 1 << 20
MIB = 1 << 20

NEWLINE = {"framing": "newline", "delimiter": "\n"}
PREFIXED = {"framing": "length_prefixed", "prefix_type": "u32be"}
LINE, FRAME = b"x" * 99 + b"\n", (96).to_bytes(4, "big") + b"x" * 96
CASES: list[tuple[str, dict[str, Any], dict[str, str] | None, bytes]] = [
    ("bare recv/send loop", {}, None, LINE),
    ("newline, 100 B, memory", {"storage": "memory"}, NEWLINE, LINE),
    ("length-prefixed, 100 B, memory", {"storage": "memory"}, PREFIXED, FRAME),
    ("newline, 10 B, memory", {"storage": "memory"}, NEWLINE, b"x" * 9 + b"\n"),
    ("length-prefixed, 10 B, memory", {"storage": "memory"}, PREFIXED, (6).to_bytes(4, "big") + b"x" * 6),
    ("newline, 100 B, file that keeps lines", {"storage": "file", **NEWLINE}, NEWLINE, LINE),
    ("length-prefixed, 100 B, file", {"storage": "file"}, PREFIXED, FRAME),
    ("newline, 100 B, file, framed anew twice", {"storage": "file"}, NEWLINE, LINE),
]


def run() -> list[dict[str, object]]:
    """A row per case, each as a share of the bare loop."""
    rows: list[dict[str, object]] = []
    bare_wall = bare_cpu = 0.0
    for name, topic, framing, record in CASES:
        moved, wall, cpu, peak = _measure(topic, framing, record)
        per_second, per_cpu = moved / MIB / wall, moved / MIB / max(cpu, 1e-9)
        if framing is None:
            bare_wall, bare_cpu = per_second, per_cpu
        rows.append(
            {
                "case": name,
                "MiB/s": round(per_second),
                "of bare": round(per_second / bare_wall, 2),
                "MiB/CPU-s": round(per_cpu),
                "of bare (CPU)": round(per_cpu / bare_cpu, 2),
                "peak MiB": round(peak / MIB),
            }
        )
    return rows


def _measure(topic: dict[str, Any], framing: dict[str, str] | None, record: bytes) -> tuple[int, float, float, int]:
    """Bytes moved, wall seconds, the middle's processor seconds and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.tcp", json.dumps(topic), json.dumps(framing), folder]
        root = Path(__file__).parent.parent
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as middle:
            assert middle.stdin is not None
            assert middle.stdout is not None
            ports = json.loads(middle.stdout.readline())
            with (
                socket.create_connection(("127.0.0.1", ports["in"])) as feed,
                socket.create_connection(("127.0.0.1", ports["out"])) as out,
            ):
                _meet(feed, out, record)
                _move(feed, out, record, 0.3)  # code and pages are warm
                before = _usage(middle)
                began = time.monotonic()
                moved = _move(feed, out, record, SECONDS)
                wall = time.monotonic() - began
                after = _usage(middle)
            middle.stdin.close()
            middle.wait()
    return moved, wall, after["cpu"] - before["cpu"], int(after["peak"])


def _usage(middle: Any) -> dict[str, float]:
    middle.stdin.write("usage\n")
    middle.stdin.flush()
    answer: dict[str, float] = json.loads(middle.stdout.readline())
    return answer


def _meet(feed: socket.socket, out: socket.socket, record: bytes) -> None:
    """Waits until the sink serves its client: it sends only what comes afterwards."""
    out.settimeout(0.2)
    met = False
    while True:
        try:
            met = bool(out.recv(BLOCK)) or met
        except TimeoutError:
            if met:
                return
            feed.sendall(record)


def _move(feed: socket.socket, out: socket.socket, record: bytes, seconds: float) -> int:
    block = record * (BLOCK // len(record))
    fed = threading.Event()
    sent = 0

    def push() -> None:
        nonlocal sent
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            feed.sendall(block)
            sent += len(block)
        fed.set()

    feeder = threading.Thread(target=push)
    feeder.start()
    buffer, received = bytearray(BLOCK), 0
    out.settimeout(0.2)  # the last byte may come before the feeder says that it was the last
    while not fed.is_set() or received < sent:
        try:
            received += out.recv_into(buffer)
        except TimeoutError:
            continue
    feeder.join()
    return received


def _middle(topic: dict[str, Any], framing: dict[str, str] | None, folder: Path) -> None:
    """The process under test: says its ports, then its usage whenever asked."""
    source, sink = _bare() if framing is None else _edges(topic, framing, folder)
    print(json.dumps({"in": source, "out": sink}), flush=True)
    for _ in sys.stdin:
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        print(json.dumps({"cpu": time.process_time(), "peak": peak}), flush=True)


def _bare() -> tuple[int, int]:
    source, sink = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))

    def relay() -> None:
        feed, out = source.accept()[0], sink.accept()[0]
        while data := feed.recv(256 << 10):
            out.sendall(data)

    threading.Thread(target=relay, daemon=True).start()
    return source.getsockname()[1], sink.getsockname()[1]


def _edges(settings: dict[str, Any], framing: dict[str, str], folder: Path) -> tuple[int, int]:
    from bench.edges import start_edge, start_topic

    topic = start_topic(settings.pop("storage"), settings, folder)
    source = start_edge("tcp-source", {"port": 0, "input": framing}, topic)
    sink = start_edge("tcp-sink", {"port": 0, "output": framing}, topic)
    return source.transport.address()[1], sink.transport.address()[1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _middle(json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3]))
        sys.stdout.flush()
        os._exit(0)
    for row in run():
        print(row)
