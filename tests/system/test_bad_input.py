"""Bad input and hostile clients against a whole run: each gives a clear message, and the run continues."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.disks import small_file_system
from helpers.feeds import Collector, connect, push_until_stuck, send
from helpers.pipelines import example_1
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]


def prefixed(feed: int, out: int) -> str:
    """Example 1 with u32be length prefixes."""
    return (
        example_1(feed, out)
        .replace('framing = "newline", delimiter = "\\n"', 'framing = "length_prefixed", prefix_type = "u32be"')
        .replace('ack = "count", ', "max_record_bytes = 100_000, ")
    )


def dead_letters(run: Run) -> dict[str, int]:
    groups = json.loads(run.cli("dlq", "ls", "--json").stdout)["groups"]
    found: dict[str, int] = {}
    for group in groups:
        found[group["reason"]] = found.get(group["reason"], 0) + group["count"]
    return found


def degraded_by(run: Run, word: str) -> bool:
    """Whether the health is degraded for a reason that contains the word."""
    health = run.api("/api/health")
    return health["status"] == "degraded" and any(word in reason for reason in health["reasons"])


def test_broken_frames_cost_their_connection_alone_and_become_dead_letters(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(prefixed(feed, out)).start()
    good = connect(feed)
    good.sendall(b"\0\0\0\x02ok")
    send(feed, b"\0\0\0\x05whole" + b"\xff\xff\xff\xff" + random.randbytes(500))  # a huge length
    send(feed, b"\0\0\0\x64half")  # half a frame
    send(feed, b"\x7f" + random.randbytes(2_000))  # random bytes
    good.sendall(b"\0\0\0\x05still")
    wait_until(lambda: run.topic("quotes.raw")["end"] == 3, what="the three whole records")
    letters = wait_until(lambda: (found := dead_letters(run)) and sum(found.values()) == 3 and found, what="letters")
    assert letters == {"too_long": 2, "truncated": 1}
    run.wait_ready()
    assert run.api("/api/health")["processes"][0]["restarts"] == 0
    good.close()


def test_thousands_of_connections_opened_and_dropped_leave_nothing(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(example_1(feed, out)).start()
    engine = run.part("gauss.stream.engine")
    before = engine.num_fds()
    threads = engine.num_threads() + 30 + 2 * (os.cpu_count() or 1)  # libraries start a thread per core
    for count in range(10_000):
        try:
            sock = socket.create_connection(("127.0.0.1", feed), timeout=10)
            if count % 3 == 0:
                sock.sendall(b"half a line")
            sock.close()
        except OSError:  # the accept queue is full for a moment, so the connection is refused
            time.sleep(0.01)
    wait_until(lambda: engine.num_fds() <= before + 50, what="all descriptors closed")  # libraries open some
    wait_until(lambda: engine.num_threads() < threads, what="all threads ended")
    collector = Collector(out)
    send(feed, b"alive\n")
    assert b"alive" in collector.wait(1)
    collector.close()


def test_client_that_never_reads_blocks_the_topic_and_is_named(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(example_1(feed, out, "memory", "{ storage_size = 1000 }")).start()
    lazy = connect(out)
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    source = connect(feed)
    push_until_stuck(source, (b"x" * 999 + b"\n") * 64, lambda: degraded_by(run, "realtime-out"))
    lazy.close()
    wait_until(lambda: run.api("/api/health")["status"] == "ready", what="flow goes on once the client is gone")
    source.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    with small_file_system(tmp_path / "small", "48m") as folder:
        yield folder


def test_full_disk_stops_sources_before_anything_is_lost(gauss: Make, small_disk: Path) -> None:
    feed, out = free_port(), free_port()
    config = "[engine]\nmin_free_bytes = 16_000_000\n" + example_1(feed, out, "file", "{ }")
    run = gauss(config)
    run.data_dir = small_disk / ".gauss"
    run.start()
    source = connect(feed)
    push_until_stuck(source, (b"y" * 9_999 + b"\n") * 16, lambda: degraded_by(run, "disk"))
    end = run.topic("quotes.raw")["end"]
    assert end > 0
    source.close()
    assert run.stop() == 0


@pytest.mark.fault
def test_closed_terminal_ends_everything(gauss: Make) -> None:
    run = gauss(example_1(free_port(), free_port()))
    terminal, inner = pty.openpty()
    run.process = subprocess.Popen(
        ["setsid", "--ctty", GAUSS, "run", str(run.config), "--data-dir", str(run.data_dir)],
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    os.set_blocking(terminal, False)

    def drained() -> bool:
        try:
            os.read(terminal, 65_536)
        except OSError:
            pass
        return (run.data_dir / "engine.json").exists() and bool(run.tree())

    wait_until(drained, what="the view is up")
    os.close(terminal)
    run.process.wait(15)
    wait_until(lambda: not run.tree(), what="nothing left behind")


def test_sigint_stops_as_politely_as_sigterm(gauss: Make) -> None:
    run = gauss(example_1(free_port(), free_port())).start()
    assert run.process is not None
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(15) in (0, 130)
    wait_until(lambda: not run.tree(), what="nothing left behind")
