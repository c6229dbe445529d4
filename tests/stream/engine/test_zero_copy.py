"""Bytes that a real engine does not parse: copies are counted by strace, and processes are killed meanwhile."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.model.errors import ConfigError
from helpers.edges import receive_all
from helpers.engine_process import EngineProcess
from helpers.feeds import connect
from helpers.run import free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="system calls are counted by strace")

DATA = random.Random(3).randbytes(8 << 20)
MOVED = "splice,tee,sendfile,copy_file_range"
COPIED = "recvfrom,recvmsg,read,readv,pread64,write,writev,pwrite64,sendto,sendmsg"


def passthrough(name: str, port: int, target: str | None = None, **config: object) -> dict[str, object]:
    settings = {"port": port, "mode": "passthrough", **config}
    entry: dict[str, object] = {"name": name, "plugin": "tcp-source", "config": settings}
    if target is not None:
        entry["target"] = {"topic": target}
    return entry


class Far:
    """A server that stores what it receives."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.got = b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.listener.accept()
                with conn:
                    self.got = receive_all(conn)


def _traced(pid: int, tracer: int) -> bool:
    """Whether all threads of a process are traced; new threads are traced too."""
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            if f"TracerPid:\t{tracer}\n" not in status.read_text():
                return False
    return True


class Zero:
    """An engine with every kind of edge that moves bytes in the kernel."""

    def __init__(self, folder: Path) -> None:
        self.far = Far()
        forward = f"127.0.0.1:{self.far.port}"
        self.capture, self.proxy, self.tee, self.replay, self.feed, self.sink = (free_port() for _ in range(6))
        line = {"framing": "newline", "delimiter": "\n"}
        self.engine = EngineProcess(
            folder,
            {
                "topics": [
                    {"name": "raw", "storage": "file", "storage_config": {"framing": "none"}},
                    {"name": "log", "storage": "file", "storage_config": line},
                ],
                "processors": [
                    passthrough("capture", self.capture, "raw"),
                    passthrough("proxy", self.proxy, forward=forward),
                    passthrough("tee", self.tee, "raw", forward=forward),
                    {
                        "name": "replay",
                        "plugin": "tcp-sink",
                        "source": {"topic": "raw", "read": "raw"},
                        "config": {"port": self.replay, "mode": "passthrough"},
                    },
                    {
                        "name": "feed",
                        "plugin": "tcp-source",
                        "target": {"topic": "log"},
                        "config": {"port": self.feed, "input": line},
                    },
                    {
                        "name": "sink",
                        "plugin": "tcp-sink",
                        "source": {"topic": "log", "read": "offset"},
                        "config": {"port": self.sink, "output": line},
                    },
                ],
                "engine": {"min_free_bytes": 0},
            },
        )
        self.folder = folder
        self.engine.restart_ready()

    def captures(self) -> list[Path]:
        return sorted((self.engine.paths.topics / "raw").glob("*.raw"))

    def settled(self) -> list[Path]:
        """The captures, once the engine counts all of them as ended, a moment after their senders closed."""
        wait_until(lambda: self.engine.client.command("topic", {"name": "raw"})["records"] == len(self.captures()), 60)
        return self.captures()

    def pid(self) -> int:
        return int(self.engine.client.command("health")["pid"])

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Bytes and number of calls by system call, while the context lasts."""
        found: Counter[str] = Counter()
        trace, pid = self.folder / "trace", self.pid()
        command = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={MOVED},{COPIED}", "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as strace:
            wait_until(lambda: _traced(pid, strace.pid), 60, "strace sees every thread")
            try:
                yield found
            finally:
                strace.send_signal(signal.SIGINT)
        for call, size in re.findall(r"^\d+ +(?:<\.\.\. )?(\w+).*= (\d+)$", trace.read_text(), re.MULTILINE):
            found[call] += int(size)

    def send(self, port: int, data: bytes = DATA) -> bytes:
        with connect(port) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return receive_all(sock)


@pytest.fixture(scope="module")
def zero(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zero]:
    made = Zero(tmp_path_factory.mktemp("zero"))
    yield made
    made.engine.close()
    made.far.listener.close()


def copied(counted: Counter[str]) -> int:
    return sum(counted[call] for call in COPIED.split(","))


def test_a_capture_passes_no_byte_through_the_engine(zero: Zero) -> None:
    before = len(zero.captures())
    with zero.counting() as counted:
        zero.send(zero.capture)
        wait_until(lambda: len(zero.captures()) == before + 1)
    assert zero.captures()[-1].read_bytes() == DATA
    assert counted["splice"] == 2 * len(DATA)  # once into the pipe and once out of it
    assert copied(counted) < len(DATA) / 100


def test_a_proxy_passes_no_byte_through_the_engine(zero: Zero) -> None:
    with zero.counting() as counted:
        zero.send(zero.proxy)
        wait_until(lambda: zero.far.got == DATA)
    assert counted["splice"] == 2 * len(DATA)
    assert copied(counted) < len(DATA) / 100


def test_a_tee_doubles_the_pipe_not_the_bytes(zero: Zero) -> None:
    before = len(zero.captures())
    with zero.counting() as counted:
        zero.send(zero.tee)
        wait_until(lambda: len(zero.captures()) == before + 1 and zero.far.got == DATA)
    assert zero.captures()[-1].read_bytes() == DATA
    assert counted["tee"] == len(DATA)
    assert counted["splice"] == 3 * len(DATA)
    assert copied(counted) < len(DATA) / 100


def test_a_replay_of_captures_passes_no_byte_through_the_engine(zero: Zero) -> None:
    expected = b"".join(path.read_bytes() for path in zero.settled())
    with zero.counting() as counted, connect(zero.replay) as sock:
        assert receive_all(sock) == expected
    assert len(expected) - 100 <= counted["sendfile"]  # a small capture is sent from memory
    assert copied(counted) < len(DATA) / 100


def test_a_replay_of_a_file_topic_passes_no_byte_through_the_engine(zero: Zero) -> None:
    lines = b"".join(b"%099d\n" % number for number in range(200_000))
    zero.send(zero.feed, lines)
    wait_until(lambda: zero.engine.client.command("topic", {"name": "log"})["end"] == 200_000)
    with zero.counting() as counted, connect(zero.sink) as sock:
        got = bytearray()
        while len(got) < len(lines):
            got += sock.recv(1 << 20)
        assert got == lines
    # The newest few megabytes are still in memory and are sent from there.
    assert counted["sendfile"] > len(lines) / 2


@pytest.mark.parametrize("topic", ["log", "raw"])
def test_a_backup_passes_no_byte_through_the_engine(zero: Zero, tmp_path: Path, topic: str) -> None:
    zero.send(zero.feed if topic == "log" else zero.capture, b"line\n" * 1_000_000)
    wait_until(lambda: zero.engine.client.command("topic", {"name": topic})["bytes"] >= 5_000_000)
    zero.settled()
    with zero.counting() as counted:
        made = zero.engine.client.command("topic.backup", {"name": topic, "folder": str(tmp_path / "copy")})
    assert counted["copy_file_range"] == made["bytes"] > 5_000_000
    assert copied(counted) < made["bytes"] / 50
    ours, theirs = zero.engine.paths.topics / topic, tmp_path / "copy"
    suffix = "*.log" if topic == "log" else "*.raw"
    assert {p.name: p.read_bytes() for p in theirs.glob(suffix)} == {p.name: p.read_bytes() for p in ours.glob(suffix)}


@pytest.mark.fault
def test_an_engine_killed_in_mid_capture_leaves_every_byte_that_was_written(zero: Zero) -> None:
    before = set(zero.settled())
    with connect(zero.capture) as sock:
        sock.sendall(DATA)
        wait_until(lambda: [p.stat().st_size for p in (zero.engine.paths.topics / "raw").glob("*.open")] == [len(DATA)])
        zero.engine.kill()
    zero.engine.restart_ready()
    (cut,) = set(zero.captures()) - before
    assert cut.name.endswith(".cut.raw")
    assert cut.read_bytes() == DATA
    zero.send(zero.capture, b"after")
    wait_until(lambda: len(zero.captures()) == len(before) + 2)


def test_captures_are_refused_as_records_and_shown_as_files(zero: Zero) -> None:
    zero.settled()
    shown = zero.engine.client.command("topic", {"name": "raw"})
    assert shown["read_modes"] == ["raw"]
    assert shown["records"] == len(zero.captures())
    assert shown["bytes"] == sum(path.stat().st_size for path in zero.captures())
    assert zero.engine.client.command("readers.ls", {"topic": "raw"}) == {"readers": []}
    with pytest.raises(ConfigError, match="keeps captures"):
        list(zero.engine.client.scan("raw"))
    with pytest.raises(ConfigError, match="keeps captures"):
        zero.engine.client.append("raw", [pa.record_batch({"data": pa.array([b"x"], pa.binary())})])
