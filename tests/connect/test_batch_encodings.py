"""Compressed batches from Python and Wasm sources, and batches in an encoding that was not negotiated."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.arrow_ipc import read_batch, write_batch
from gauss.connect.host import StreamHost, StreamRun
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import BATCH_OVERHEAD_BYTES, Opaque
from gauss.contracts.connector.progress import CheckpointKind
from gauss.contracts.connector.stream import StreamLimits
from helpers.connectors import DOORS, OneStream, PythonDoor, WasmDoor

Door = PythonDoor | WasmDoor
COMPRESSED = pytest.mark.parametrize("codec", ["lz4", "zstd"])


@pytest.fixture(params=DOORS)
def kind(request: pytest.FixtureRequest) -> Any:
    return DOORS[request.param]


def emit(door: Door, data: bytes) -> int:
    door.memory.write(0, data)
    return door.call("emit_batch", 0, len(data))


def error_of(door: Door) -> dict[str, Any]:
    length = door.call("last_error", 40_000, 8192)
    found: dict[str, Any] = json.loads(door.memory.read(40_000, length))
    return found


def zeros(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([0] * count, pa.int64())})


@COMPRESSED
@pytest.mark.parametrize("reader", DOORS)
def test_compressed_batch_is_delivered_decompressed(kind: Any, codec: str, reader: str) -> None:
    both = OneStream()
    source, destination = kind(both.source), DOORS[reader](both.destination)
    data = write_batch(zeros(1000), codec)
    assert len(data) < 4_000 and emit(source, data) == 0
    length = destination.call("next_batch", 0, 60_000)
    assert length > zeros(1000).nbytes  # guests need not know how to decompress
    assert read_batch(destination.memory.read(0, length)).equals(zeros(1000))


@COMPRESSED
def test_compressed_batch_above_the_decompressed_limit_is_refused(kind: Any, codec: str) -> None:
    both = OneStream(limits=StreamLimits(max_batch_bytes=1024))
    door = kind(both.source)
    most = (1024 + BATCH_OVERHEAD_BYTES) // 8
    data = write_batch(zeros(most + 1), codec)
    assert len(data) < 10_000 and emit(door, data) == -1
    error = error_of(door)
    assert error["code"] == "BATCH_TOO_LARGE" and "when it is decompressed" in error["message"]
    assert emit(door, write_batch(zeros(most), codec)) == 0


@COMPRESSED
@pytest.mark.parametrize("length", [1 << 62, 1 << 40, 7, -2], ids=["huge", "large", "small", "negative"])
def test_batch_with_a_wrong_decompressed_length_is_an_error(kind: Any, codec: str, length: int) -> None:
    door = kind(OneStream().source)
    data = write_batch(zeros(1000), codec)
    told = (8000).to_bytes(8, "little", signed=True)
    assert data.count(told) == 1
    assert emit(door, data.replace(told, length.to_bytes(8, "little", signed=True))) == -1
    assert error_of(door)["code"] == "BAD_BATCH"


@pytest.mark.parametrize("agreed", ["", "pgcopy:other"], ids=["Arrow", "another"])
def test_opaque_batch_that_was_not_negotiated_is_refused(agreed: str) -> None:
    both = OneStream()
    run = StreamRun(both.run.stream, both.state, both.seen, pipeline="p", opaque=agreed)
    host = StreamHost(run, CheckpointKind.SOURCE, "source-a")
    with pytest.raises(ConnectorError, match=f"agreed on {agreed or 'Arrow batches'}, found pgcopy:one") as caught:
        host.emit_batch(Opaque("pgcopy:one", b"x", 1))
    assert caught.value.code == "OPAQUE"
