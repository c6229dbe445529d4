"""The exact semantics of the host functions, called from Python and from Wasm."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from gauss.connect.abi import SCOPES as SCOPE
from gauss.connect.arrow_ipc import read_batch, write_batch
from gauss.contracts.connector.host import BATCH_OVERHEAD_BYTES, KEY_BYTES, STATE_BYTES, LogLevel
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointEnvelope,
    CheckpointKind,
    Counter,
    Metric,
    MetricEnvelope,
)
from gauss.contracts.connector.stream import StreamLimits
from helpers.connectors import DOORS, MEMORY_BYTES, OneStream, PythonDoor, WasmDoor, rows

Door = PythonDoor | WasmDoor
PIPELINE, STREAM, INSTANCE = 0, 1, 2


@pytest.fixture(params=DOORS)
def kind(request: pytest.FixtureRequest) -> Any:
    return DOORS[request.param]


def put(door: Door, data: bytes, at: int = 0) -> tuple[int, int]:
    door.memory.write(at, data)
    return at, len(data)


def error_of(door: Door) -> dict[str, Any]:
    """The last error, which is read once."""
    length = door.call("last_error", 4096, 8192)
    assert length > 0
    found: dict[str, Any] = json.loads(door.memory.read(4096, length))
    assert door.call("last_error", 4096, 8192) == 0
    return found


def envelope(kind: CheckpointKind, number: int, stream: str = "users") -> bytes:
    checkpoint = Checkpoint(number, kind, stream)
    return encode(CheckpointEnvelope(connector_id="c", stream_name=stream, checkpoint=checkpoint))


def test_batches_arrive_in_order_and_end_with_0(kind: Any) -> None:
    both = OneStream()
    source, destination = kind(both.source), kind(both.destination)
    for number in (1, 2, 3):
        assert source.call("emit_batch", *put(source, write_batch(rows(number)))) == 0
    both.source.end()
    for number in (1, 2, 3):
        length = destination.call("next_batch", 0, MEMORY_BYTES)
        assert read_batch(destination.memory.read(0, length)).to_pydict() == {"n": [number]}
    assert destination.call("next_batch", 0, MEMORY_BYTES) == 0


def test_emit_blocks_while_the_channel_is_full(kind: Any) -> None:
    both = OneStream(StreamLimits(max_inflight_batches=1))
    source = kind(both.source)
    where = put(source, write_batch(rows(1)))
    assert source.call("emit_batch", *where) == 0
    done = threading.Event()

    def emit() -> None:
        source.call("emit_batch", *where)
        done.set()

    thread = threading.Thread(target=emit)
    thread.start()
    assert not done.wait(0.2)
    assert both.destination.next_batch() is not None
    assert done.wait(10)
    thread.join()


def test_batch_that_does_not_fit_the_buffer_is_stashed_and_delivered_again(kind: Any) -> None:
    both = OneStream()
    both.source.emit_batch(rows(1))
    both.source.emit_batch(rows(2))
    both.source.end()
    destination = kind(both.destination)
    needed = -destination.call("next_batch", 0, 10)
    assert needed == len(write_batch(rows(1)))
    assert destination.call("next_batch", 0, needed - 1) == -needed
    assert destination.call("last_error", 0, 100) == 0
    assert destination.call("next_batch", 0, needed) == needed
    assert read_batch(destination.memory.read(0, needed)).to_pydict() == {"n": [1]}
    length = destination.call("next_batch", 0, MEMORY_BYTES)
    assert read_batch(destination.memory.read(0, length)).to_pydict() == {"n": [2]}


@pytest.mark.parametrize("pointer", [MEMORY_BYTES - 4, MEMORY_BYTES, 2**31, 2**32 - 1])
def test_batch_is_stashed_if_memory_cannot_be_written(kind: Any, pointer: int) -> None:
    both = OneStream()
    both.source.emit_batch(rows(7))
    both.source.end()
    destination = kind(both.destination)
    assert destination.call("next_batch", pointer, 2**31) == -1
    assert error_of(destination)["code"] == "MEMORY_FAULT"
    length = destination.call("next_batch", 0, MEMORY_BYTES)
    assert read_batch(destination.memory.read(0, length)).to_pydict() == {"n": [7]}


def test_last_error_is_kept_until_it_was_read_or_a_call_succeeds(kind: Any) -> None:
    both = OneStream()
    source = kind(both.source)
    assert source.call("last_error", 0, 100) == 0
    assert source.call("emit_batch", 0, 4) == -1
    needed = -source.call("last_error", 0, 3)
    assert needed > 3
    assert source.call("last_error", MEMORY_BYTES, needed) == -1
    assert source.call("last_error", 0, needed) == needed
    assert source.call("last_error", 0, needed) == 0
    assert source.call("emit_batch", 0, 4) == -1
    assert source.call("emit_batch", *put(source, write_batch(rows(1)))) == 0
    assert source.call("last_error", 0, needed) == 0


@pytest.mark.parametrize("data", [b"", b"none", write_batch(rows())], ids=["nothing", "no IPC stream", "no rows"])
def test_invalid_or_empty_batch_is_refused(kind: Any, data: bytes) -> None:
    source = kind(OneStream().source)
    assert source.call("emit_batch", *put(source, data)) == -1
    assert error_of(source)["code"] in ("EMPTY_BATCH", "BAD_BATCH")


def test_batch_above_the_limit_is_refused_before_it_is_parsed(kind: Any) -> None:
    source = kind(OneStream(StreamLimits(max_batch_bytes=1_000)).source)
    assert source.call("emit_batch", 0, 1_000 + BATCH_OVERHEAD_BYTES + 1) == -1
    found = error_of(source)
    assert (found["code"], found["category"], found["retryable"]) == ("BATCH_TOO_LARGE", "config", False)


def test_call_of_the_other_side_is_refused(kind: Any) -> None:
    both = OneStream()
    source, destination = kind(both.source), kind(both.destination)
    assert source.call("next_batch", 0, 100) == -1
    assert error_of(source)["code"] == "WRONG_SIDE"
    assert destination.call("emit_batch", *put(destination, write_batch(rows(1)))) == -1
    assert error_of(destination)["code"] == "WRONG_SIDE"


def test_state_is_separate_per_scope_and_stream(kind: Any) -> None:
    both = OneStream()
    source, destination = kind(both.source), kind(both.destination)
    for scope, value in ((PIPELINE, b"one"), (STREAM, b"two"), (INSTANCE, b"three")):
        put(source, b"key")
        assert source.call("state_put", scope, 0, 3, *put(source, value, 100)) == 0
        assert source.call("state_get", scope, 0, 3, 200, 100) == len(value)
        assert source.memory.read(200, len(value)) == value
    owners = {owner for owner, _ in both.state.values}
    assert owners == {"p", "p/users", "p//source-a"}
    put(destination, b"key")
    assert destination.call("state_get", STREAM, 0, 3, 200, 100) == 3  # shared by both sides
    assert destination.call("state_get", INSTANCE, 0, 3, 200, 100) == 0


def test_state_get_returns_0_if_missing_and_minus_n_for_a_small_buffer(kind: Any) -> None:
    both = OneStream()
    source = kind(both.source)
    put(source, b"k")
    assert source.call("state_get", STREAM, 0, 1, 100, 10) == 0
    both.source.state_put(SCOPE[STREAM], "k", b"x" * 50)
    assert source.call("state_get", STREAM, 0, 1, 100, 49) == -50
    assert source.call("state_get", STREAM, 0, 1, 100, 50) == 50
    both.source.state_put(SCOPE[STREAM], "k", b"x")
    assert source.call("state_get", STREAM, 0, 1, 100, 0) == -2  # -1 is an error


@pytest.mark.parametrize("scope", [-1, 3, 2**31 - 1, -(2**31)])
def test_unknown_scope_is_refused(kind: Any, scope: int) -> None:
    source = kind(OneStream().source)
    put(source, b"k")
    assert source.call("state_put", scope, 0, 1, 10, 1) == -1
    assert error_of(source)["code"] == "BAD_SCOPE"
    assert source.call("state_get", scope, 0, 1, 10, 1) == -1


@pytest.mark.parametrize(
    ("length", "works"), [(0, False), (1, True), (KEY_BYTES, True), (KEY_BYTES + 1, False), (2**31, False)]
)
def test_key_outside_1_to_1024_bytes_is_refused(kind: Any, length: int, works: bool) -> None:
    source = kind(OneStream().source)
    put(source, b"k" * min(length, KEY_BYTES + 1))
    assert source.call("state_put", STREAM, 0, length, 8000, 1) == (0 if works else -1)
    if not works:
        assert error_of(source)["code"] == "BAD_KEY"


def test_key_that_is_no_text_and_value_above_16_mib_are_refused(kind: Any) -> None:
    source = kind(OneStream().source)
    put(source, b"\xff")
    assert source.call("state_put", STREAM, 0, 1, 10, 1) == -1
    assert error_of(source)["code"] == "BAD_KEY"
    put(source, b"k")
    assert source.call("state_put", STREAM, 0, 1, 10, STATE_BYTES + 1) == -1
    assert error_of(source)["code"] == "STATE_TOO_LARGE"


def test_checkpoints_of_both_sides_advance_the_cursor(kind: Any) -> None:
    both = OneStream()
    source, destination = kind(both.source), kind(both.destination)
    assert source.call("emit_batch", *put(source, write_batch(rows(1)))) == 0
    assert source.call("checkpoint", 0, *put(source, envelope(CheckpointKind.SOURCE, 1))) == 0
    assert destination.call("next_batch", 0, MEMORY_BYTES) > 0
    assert both.seen.safe == []
    assert destination.call("checkpoint", 1, *put(destination, envelope(CheckpointKind.DEST, 1))) == 0
    assert [each.id for each in both.seen.safe] == [1]


@pytest.mark.parametrize(
    ("number", "payload"),
    [
        (0, envelope(CheckpointKind.DEST, 0)),
        (1, envelope(CheckpointKind.DEST, 0)),
        (2, envelope(CheckpointKind.SOURCE, 0)),
        (-1, envelope(CheckpointKind.SOURCE, 0)),
        (0, envelope(CheckpointKind.SOURCE, 1)),
        (0, envelope(CheckpointKind.SOURCE, 0, "others")),
        (0, b"{}"),
        (0, b"\xff"),
    ],
    ids=["other kind", "other side", "unknown kind", "negative", "beyond", "other stream", "empty", "no JSON"],
)
def test_invalid_checkpoint_is_refused(kind: Any, number: int, payload: bytes) -> None:
    both = OneStream()
    source = kind(both.source)
    assert source.call("checkpoint", number, *put(source, payload)) == -1
    assert error_of(source)["category"] == "internal"
    assert both.seen.safe == []


def test_log_metric_and_progress_reach_the_observer(kind: Any) -> None:
    both = OneStream()
    source = kind(both.source)
    for level in (0, 4, 9, -3):
        assert source.call("log", level, *put(source, b"h\xffi")) == 0
    levels = [line[1] for line in both.seen.lines]
    assert levels == [LogLevel.ERROR, LogLevel.TRACE, LogLevel.TRACE, LogLevel.ERROR]
    assert both.seen.lines[0][2] == "h\ufffdi"
    metric = Metric("rows", Counter(5), [("a", "b")])
    data = encode(MetricEnvelope(connector_id="c", stream_name="users", metric=metric))
    assert source.call("metric", *put(source, data)) == 0
    assert both.seen.metrics == [metric]
    assert source.call("metric", *put(source, b'{"metric":1}')) == -1
    assert source.call("report_progress", 10, 2**40) == 0
    assert both.seen.totals == {CheckpointKind.SOURCE: (10, 2**40)}
    assert source.call("report_progress", -1, 0) == -1


def test_blocked_call_ends_when_the_run_fails(kind: Any) -> None:
    from gauss.contracts.connector.errors import ConnectorError

    both = OneStream()
    destination = kind(both.destination)
    threading.Timer(0.1, lambda: both.run.break_off(ConnectorError.internal("GONE", "the source failed"))).start()
    assert destination.call("next_batch", 0, 100) == -1
    assert error_of(destination)["code"] == "GONE"


def test_failure_of_the_state_store_is_returned_as_an_error(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = OneStream()

    def fail(owner: str, key: str) -> bytes | None:
        raise OSError(f"{owner} {key}: no disk")

    monkeypatch.setattr(both.state, "get", fail)
    source = kind(both.source)
    put(source, b"k")
    assert source.call("state_get", STREAM, 0, 1, 100, 10) == -1
    assert error_of(source)["code"] == "HOST_FAILED"
