"""The wrappers of the host's functions in the guest kit: buffers, limits, errors, panics, memory."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.connect.abi import HostFunctions
from gauss.connect.arrow_ipc import read_batch
from gauss.connect.wasm.guest import Guest, read_module
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import STATE_BYTES, LogLevel
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo, ValidationResult
from gauss.contracts.connector.progress import ReadSummary, StateScope, WriteSummary
from helpers.connectors import OneStream, Values, rows

MODULES = Path(os.environ.get("GAUSS_SDK_MODULES", Path(__file__).parents[3] / "sdk/modules"))


class Probe:
    """The module `probe` on one side of a stream. It may be opened again and again: to compile it takes time."""

    def __init__(self, side: str) -> None:
        self.both = OneStream()
        if side == "destination":
            self.both.run.channel.end()  # what is emitted is still delivered, and each run ends behind it
        self.guest = Guest(read_module(MODULES / "probe.wasm"), "probe.wasm", getattr(self.both, side))

    def open(self, **config: Any) -> Probe:
        self.both.state.values.clear()
        self.guest.call("rb_open", OpenContext(JsonConfig(config), "probe", "1"), OpenInfo)
        return self

    def read(self) -> ReadSummary:
        return self.guest.call("rb_run_read", self.both.run.stream, ReadSummary)

    def write(self) -> WriteSummary:
        return self.guest.call("rb_run_write", self.both.run.stream, WriteSummary)

    def stored(self, key: str) -> bytes:
        (found,) = (value for (_, name), value in self.both.state.values.items() if name == key)
        return found

    def failed_read(self, **config: Any) -> ConnectorError:
        with pytest.raises(ConnectorError) as caught:
            self.open(**config).read()
        return caught.value

    def memory_bytes(self) -> int:
        assert self.guest._memory.memory is not None
        return self.guest._memory.memory.data_len(self.guest._store)


@pytest.fixture(scope="module")
def source() -> Probe:
    return Probe("source")


@pytest.fixture(scope="module")
def destination() -> Probe:
    return Probe("destination")


@pytest.mark.parametrize("size", [0, 1, 8, 1000, 1 << 20])
def test_batch_is_read_with_any_initial_buffer_size(destination: Probe, size: int) -> None:
    destination.open(raw=True, buffer_bytes=size)
    sent = [rows(1), rows(*range(30_000)), rows(2), rows(*range(20_000)), rows(3, 4)]
    for batch in sent:
        destination.both.source.emit_batch(batch)
    assert destination.write() == WriteSummary(batches_written=len(sent))
    for number, batch in enumerate(sent, 1):
        assert read_batch(destination.stored(str(number))).equals(batch)


def test_batch_above_the_cap_is_refused_and_not_lost(destination: Probe) -> None:
    destination.open(raw=True, max_bytes=100_000)
    destination.both.source.emit_batch(rows(*range(30_000)))
    before = destination.memory_bytes()
    with pytest.raises(ConnectorError, match="at most 100000 bytes here, found 2") as caught:
        destination.write()
    assert caught.value.code == "TOO_LARGE" and destination.memory_bytes() == before
    assert destination.open(raw=True).write() == WriteSummary(batches_written=1)


@pytest.mark.parametrize("capacity", [0, 1, 100, 1 << 21])
@pytest.mark.parametrize("size", [1, 2, 100, (64 << 10) + 1])
def test_state_value_is_read_with_any_initial_buffer_size(source: Probe, capacity: int, size: int) -> None:
    value = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    source.open(**{"do": "state", "from": "a", "to": "b", "buffer_bytes": capacity}).read()
    assert not source.both.state.values  # there was none to copy
    source.both.source.state_put(StateScope.STREAM, "a", value)
    source.read()
    assert source.stored("b") == value


def test_largest_state_is_read_and_written_and_a_larger_one_refused(source: Probe) -> None:
    source.open(**{"do": "state", "from": "a", "to": "b"})
    source.both.source.state_put(StateScope.STREAM, "a", bytes(STATE_BYTES))
    source.read()
    assert len(source.stored("b")) == STATE_BYTES
    for owner, key in source.both.state.values:
        source.both.state.values[owner, key] = bytes(STATE_BYTES + 1)
    with pytest.raises(ConnectorError, match=f"at most {STATE_BYTES} bytes") as caught:
        source.read()
    assert caught.value.code == "TOO_LARGE"
    assert source.failed_read(do="large state").code == "STATE_TOO_LARGE"


@pytest.mark.parametrize(
    ("do", "code", "category"),
    [
        ("garbage", "BAD_BATCH", ErrorCategory.DATA),
        ("wrong side", "WRONG_SIDE", ErrorCategory.INTERNAL),
        ("long key", "BAD_KEY", ErrorCategory.CONFIG),
    ],
)
def test_error_of_the_host_is_returned_by_the_module_unchanged(
    source: Probe, do: str, code: str, category: ErrorCategory
) -> None:
    error = source.failed_read(do=do)
    assert (error.code, error.category) == (code, category)


class Failing(Values):
    def get(self, owner: str, key: str) -> bytes | None:  # noqa: ARG002
        raise OSError("no space " * 2000)


def test_error_longer_than_the_initial_buffer_is_read_completely(
    source: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source.both.run, "state", Failing())
    error = source.failed_read(**{"do": "state", "from": "a", "to": "b"})
    assert error.code == "HOST_FAILED" and error.message.count("no space") == 2000


def test_unreadable_error_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [b"", b"{", b'{"category":"x"}', b"\xff"]

    def last_error(self: HostFunctions, pointer: int, _capacity: int) -> int:
        answer = answers.pop()
        self._memory.write(pointer, answer)
        return len(answer)

    monkeypatch.setattr(HostFunctions, "last_error", last_error)
    probe = Probe("source")
    while answers:
        error = probe.failed_read(do="garbage")
        assert (error.code, error.category) == ("HOST_ERROR", ErrorCategory.INTERNAL)


def test_second_request_for_a_larger_buffer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def next_batch(_self: HostFunctions, _pointer: int, capacity: int) -> int:
        asked.append(capacity)
        return -2 * capacity

    monkeypatch.setattr(HostFunctions, "next_batch", next_batch)
    with pytest.raises(ConnectorError) as caught:
        Probe("destination").open(raw=True, buffer_bytes=1000).write()
    assert caught.value.code == "BAD_LENGTH" and len(asked) == 2 and asked[1] >= 2 * asked[0]


def test_panic_is_a_trap_with_its_message_in_the_log() -> None:
    probe = Probe("source")
    assert probe.failed_read(do="panic").code == "TRAP"
    ((_, level, message),) = probe.both.seen.lines
    assert level is LogLevel.ERROR and "as told" in message and "probe.rs" in message


def test_module_in_a_loop_is_interrupted() -> None:
    probe = Probe("source")
    threading.Timer(0.1, probe.guest.interrupt).start()
    began = time.monotonic()
    error = probe.failed_read(do="loop")
    assert error.code == "CANCELLED" and "rb_run_read" in error.message
    assert time.monotonic() - began < 30


def test_failed_close_is_an_error_and_its_reason_is_logged(source: Probe) -> None:
    source.both.seen.lines.clear()
    source.open(close_error="STUCK").guest.functions.failure = None
    with pytest.raises(ConnectorError, match="rb_close returned 1"):
        source.guest.close()
    assert source.both.seen.lines == [("source-a", LogLevel.ERROR, "close: STUCK: close was told to fail")]


def test_closed_module_and_malformed_argument_are_errors(source: Probe) -> None:
    source.open().guest.close()
    source.guest.close()
    with pytest.raises(ConnectorError) as caught:
        source.guest.call("rb_validate", JsonConfig({}), ValidationResult)
    assert caught.value.code == "NOT_OPEN"
    with pytest.raises(ConnectorError, match="config: missing") as caught:
        source.guest.call("rb_open", {}, OpenInfo)
    assert caught.value.code == "BAD_ARGUMENT"


def test_memory_does_not_grow_with_calls_and_batches(destination: Probe) -> None:
    batch = pa.record_batch({"t": ["x" * 100] * 5_000})
    sizes = []
    for _ in range(30):
        destination.open(raw=True).both.source.emit_batch(batch)
        destination.write()
        sizes.append(destination.memory_bytes())
    assert sizes[-1] == sizes[10]


def test_summary_of_a_run_without_rows_has_zeros_and_one_checkpoint(source: Probe) -> None:
    assert source.open().read() == ReadSummary(checkpoint_count=1)
