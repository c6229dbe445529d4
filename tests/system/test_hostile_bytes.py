"""Small inputs that expand to gigabytes, against a real engine: its memory stays bounded and is released."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import zstandard

from gauss.plugins.formats.avro.container import SYNC, close_container
from helpers.engine_process import EngineProcess
from helpers.run import free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
MIB = 1 << 20
MOST_GROWN = 512 * MIB
"""Maximum memory of the engine beyond its topics, whatever is sent."""
MOST_LEFT = 112 * MIB
"""Free memory at the ends of its two heaps, up to 64 MiB each."""
TOPIC_BYTES = 16 * MIB


def unfinished() -> list[bytes]:
    return [b"x" * (15 * MIB)] * 60


def repeated_avro_header() -> list[bytes]:
    header = close_container('{"type": "string", "doc": "' + "x" * (1000 << 10) + '"}', b"", 0)
    header = header[: header.index(SYNC) + len(SYNC)]
    return [header + (b"\x02\x02\x00" + SYNC) * 8_000] * 3


def arrow_stream(dictionaries: int, size: int, batches: int) -> bytes:
    entry = pa.array(["x" * size])
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), entry)
    batch = pa.record_batch({f"c{index}": column for index in range(dictionaries)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def many_dictionaries() -> list[bytes]:
    return [arrow_stream(100, 12 * MIB // 100, 1), arrow_stream(40, 15 * MIB, 1)]


def repeated_dictionaries() -> list[bytes]:
    return [arrow_stream(1, 8 * MIB, 500)] * 3


def zstd_windows() -> list[bytes]:
    params = zstandard.ZstdCompressionParameters(window_log=23, chain_log=6, hash_log=6)
    made = zstandard.ZstdCompressor(compression_params=params).compressobj()
    return [made.compress(bytes(64 * MIB)) + made.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)] * 100


def huge_zstd_windows() -> list[bytes]:
    params = zstandard.ZstdCompressionParameters(window_log=27, chain_log=6, hash_log=6)
    made = zstandard.ZstdCompressor(compression_params=params).compressobj()
    return [made.compress(bytes(200 * MIB)) + made.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)] * 25


def gzip_bombs() -> list[bytes]:
    return [gzip.compress(bytes(200 * MIB))] * 20


def lz4_bombs() -> list[bytes]:
    return [lz4.frame.compress(bytes(64 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB)] * 40


ATTACKS: dict[str, tuple[Callable[[], list[bytes]], dict[str, Any]]] = {
    "unfinished records": (unfinished, {"input": {"framing": "newline"}}),
    "unfinished records of a length": (
        lambda: [b"\x00\xf0\x00\x00" + record for record in unfinished()],
        {"input": {"framing": "length_prefixed", "prefix_type": "u32be"}},
    ),
    "an Avro header per block": (repeated_avro_header, {"input": {"framing": "avro_container"}}),
    "Arrow dictionaries": (many_dictionaries, {"input": {"framing": "arrow_ipc_streaming"}}),
    "Arrow dictionaries per batch": (repeated_dictionaries, {"input": {"framing": "auto"}}),
    "zstd windows": (zstd_windows, {"input": {"framing": "newline"}, "compression": "zstd"}),
    "huge zstd windows": (huge_zstd_windows, {"input": {"framing": "newline"}, "compression": "zstd"}),
    "gzip bombs": (gzip_bombs, {"input": {"framing": "newline"}, "compression": "gzip"}),
    "lz4 bombs": (lz4_bombs, {"input": {"framing": "newline"}, "compression": "lz4"}),
}


class Watched:
    """An engine whose memory is sampled every few milliseconds."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.engine = EngineProcess(folder, config)
        assert self.engine.start().get("ready")
        assert self.engine._process is not None
        self._pid = self.engine._process.pid
        self.before = self.peak = self.now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def now(self) -> int:
        """Anonymous memory in bytes: mapped files belong to the page cache."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) << 10

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, self.now())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.engine.close()


@pytest.fixture
def attacked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Watched, int]]:
    port = free_port()
    source = {"name": "in", "plugin": "tcp-source", "target": {"topic": "t"}}
    source["config"] = {"port": port, "host": "127.0.0.1", **ATTACKS[request.param][1]}
    bounds = {"storage_bytes": TOPIC_BYTES, "write_full": "overwrite"}
    topics = [{"name": "t", "storage": "memory", "storage_config": bounds}]
    made = Watched(tmp_path, {"topics": topics, "processors": [source]})
    yield made, port
    made.close()


@pytest.mark.parametrize("attacked", ATTACKS, indirect=True)
def test_the_engine_stays_within_its_bounds_and_gives_memory_back(
    attacked: tuple[Watched, int], request: pytest.FixtureRequest
) -> None:
    watched, port = attacked
    payloads = ATTACKS[request.node.callspec.params["attacked"]][0]()
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in payloads]

    def push(sock: socket.socket, payload: bytes) -> None:
        sock.settimeout(60)
        with contextlib.suppress(OSError):  # the engine has closed the connection, as expected
            sock.sendall(payload)

    threads = [threading.Thread(target=push, args=pair) for pair in zip(socks, payloads, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in socks:
        sock.close()
    wait_until(lambda: not _connected(watched.engine), 240, what="all connections ended")
    grown = watched.peak - watched.before
    assert grown <= MOST_GROWN + TOPIC_BYTES, f"{grown / MIB:.0f} MiB"
    back = watched.before + TOPIC_BYTES + MOST_LEFT
    wait_until(lambda: watched.now() <= back, 60, what=f"{watched.now() / MIB:.0f} MiB to go back")
    print(f"grown {grown / MIB:.0f} MiB, left {(watched.now() - watched.before) / MIB:.0f} MiB")


def _connected(engine: EngineProcess) -> int:
    (status,) = [each for each in engine.client.command("processors.ls")["processors"] if each["name"] == "in"]
    return int(status["connections"])
