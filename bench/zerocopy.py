"""Bytes that nobody looks at: sendfile, splice and tee beside loops that copy them, on the same bytes in the same run.

The middle is a process of its own. `MiB/CPU-s` is what it moves per second of its own processor time, which noise on
other cores does not touch.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.tcp import MIB, _usage

SIZE = 256 * MIB
ROUNDS = 7
LINE = b"x" * 99 + b"\n"
NEWLINE = {"framing": "newline", "delimiter": "\n"}
PREFIXED = {"framing": "length_prefixed", "prefix_type": "u32be"}
REPLAYS = ("bare sendfile loop", "replay, framings equal: sendfile", "replay, framed anew")
STREAMS = {
    "socket → file": ("bare recv/write loop", "capture: splice"),
    "socket → socket": ("bare recv/send loop", "proxy: splice"),
    "socket → both": ("bare recv/write/send loop", "tee + splice"),
}


def run() -> list[dict[str, object]]:
    """A row per case, each as a share of the loop that it stands beside."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        rows += _rows("file → socket", REPLAYS, folder)
    for way, cases in STREAMS.items():
        with tempfile.TemporaryDirectory() as name:
            rows += _rows(way, cases, Path(name))
    return rows


def _rows(way: str, cases: tuple[str, ...], folder: Path) -> list[dict[str, object]]:
    """Rounds by turns, so that a slow moment of the machine meets every case; the median of each."""
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in cases}
    with contextlib.ExitStack() as ending:
        middles = {case: ending.enter_context(_Middle(way, case, folder)) for case in cases}
        for turn in range(ROUNDS + 1):
            for case, middle in middles.items():
                moved, wall, cpu = middle.measure()
                if turn:  # the first shows what is loaded and mapped once
                    found[case].append((moved / MIB / wall, moved / MIB / max(cpu, 1e-9)))
    medians = {case: (median(each[0] for each in all), median(each[1] for each in all)) for case, all in found.items()}
    wall_bare, cpu_bare = medians[cases[0]]
    return [
        {
            "way": way,
            "case": case,
            "MiB/s": round(wall),
            "of bare": round(wall / wall_bare, 2),
            "MiB/CPU-s": round(cpu),
            "of bare (CPU)": round(cpu / cpu_bare, 2),
        }
        for case, (wall, cpu) in medians.items()
    ]


class _Middle:
    """The process under test, for all rounds of its case."""

    def __init__(self, way: str, case: str, folder: Path) -> None:
        self._way, self._folder = way, folder
        self._far = socket.create_server(("127.0.0.1", 0))
        command = [sys.executable, "-m", "bench.zerocopy", way, case, str(folder), str(self._far.getsockname()[1])]
        root = Path(__file__).parent.parent
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        assert self._process.stdout is not None
        self._port: int = json.loads(self._process.stdout.readline())

    def __enter__(self) -> _Middle:
        return self

    def __exit__(self, *_: object) -> None:
        self._far.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def measure(self) -> tuple[int, float, float]:
        """One connection: bytes, seconds, and seconds of the processor in the middle."""
        before, began = _usage(self._process), time.monotonic()
        with socket.create_connection(("127.0.0.1", self._port)) as sock:
            moved = _take(sock) if self._way == "file → socket" else _give(sock, self._far, self._way)
        wall = time.monotonic() - began
        after = _usage(self._process)
        for left in [*self._folder.glob("bare-*"), *self._folder.glob("*.raw")]:
            left.unlink()  # dirty pages of one round would slow down the next
        return moved, wall, after["cpu"] - before["cpu"]


def _take(sock: socket.socket) -> int:
    buffer, received = bytearray(MIB), 0
    while received < SIZE and (size := sock.recv_into(buffer)):
        received += size
    return received


def _give(sock: socket.socket, far: socket.socket, way: str) -> int:
    """Sends, and waits until the middle has passed it all on and hangs up."""
    taken = threading.Thread(target=lambda: _take(far.accept()[0]))
    if way != "socket → file":
        taken.start()
    block = LINE * (MIB // len(LINE))
    for _ in range(SIZE // len(block)):
        sock.sendall(block)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1):
        pass
    return SIZE // len(block) * len(block)


def _fill(folder: Path) -> None:
    """A topic of lines, written by another process: nothing of it is left in the memory of those that replay it."""
    program = f"from bench.zerocopy import _write; _write({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent.parent)


def _write(folder: str) -> None:
    from bench.edges import framing, start_topic

    from gauss.contracts.chunk import Chunk

    topic = start_topic("file", {**NEWLINE}, Path(folder))
    lines, block = framing("newline", {"delimiter": "\n"}), LINE * (MIB // len(LINE))
    for _ in range(SIZE // len(block) + 1):
        topic.append(Chunk(block, len(block) // len(LINE), 1, lines))
    topic.close()


def _middle(way: str, case: str, folder: Path, far: int) -> None:
    """The process under test: says its port, then its usage whenever asked."""
    bare = case.startswith("bare")
    if way == "file → socket":
        port = _bare_replay(folder) if bare else _replay(folder, PREFIXED if case.endswith("anew") else NEWLINE)
    else:
        port = _bare_stream(way, folder, far) if bare else _stream(way, folder, far)
    print(json.dumps(port), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"cpu": time.process_time(), "peak": 0}), flush=True)


def _serve(serve: Any) -> int:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            serve(listener.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1])


def _bare_replay(folder: Path) -> int:
    def serve(sock: socket.socket) -> None:
        with sock, contextlib.suppress(ConnectionError):  # the client leaves in the middle of the last file
            for path in sorted(folder.glob("*.log")):
                with path.open("rb") as file:
                    position, size = 0, path.stat().st_size
                    while position < size:
                        position += os.sendfile(sock.fileno(), file.fileno(), position, size - position)

    return _serve(serve)


def _replay(folder: Path, output: dict[str, str]) -> int:
    from bench.edges import start_edge, start_topic

    own = folder / output["framing"]  # a topic has its folder to itself; the bytes are the same
    own.mkdir()
    for path in [*folder.glob("*.*")]:
        (own / path.name).hardlink_to(path)
    topic = start_topic("file", {**NEWLINE}, own)
    return start_edge("tcp-sink", {"port": 0, "output": output}, topic).transport.address()[1]


def _bare_stream(way: str, folder: Path, far: int) -> int:
    def serve(sock: socket.socket) -> None:
        out = socket.create_connection(("127.0.0.1", far)) if way != "socket → file" else None
        with sock, (folder / f"bare-{time.time_ns()}").open("wb", buffering=0) as file:
            while data := sock.recv(256 << 10):
                if way != "socket → socket":
                    file.write(data)
                if out is not None:
                    out.sendall(data)

    return _serve(serve)


def _stream(way: str, folder: Path, far: int) -> int:
    from bench.edges import start_raw_source

    forward = {} if way == "socket → file" else {"forward": f"127.0.0.1:{far}"}
    return start_raw_source(forward, None if way == "socket → socket" else folder)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _middle(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        for row in run():
            print(row)
