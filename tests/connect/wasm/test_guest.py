"""Wasm modules that work, and modules that trap, loop, grow, or return wrong lengths or pointers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gauss.connect.wasm.connector import WasmConnector
from gauss.connect.wasm.guest import Guest
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import (
    Catalog,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import ReadSummary
from helpers.connectors import OneStream, module, rows, segment

OPEN = OpenContext(JsonConfig({"dsn": "x"}), "sample", "1.0")


def connector(folder: Path, wasm: bytes, both: OneStream | None = None) -> WasmConnector:
    path = folder / "sample.wasm"
    path.write_bytes(wasm)
    return WasmConnector(path, (both or OneStream()).source)


def packed(pointer: int, length: int) -> str:
    value = pointer << 32 | length
    return f"(i64.const {value - (1 << 64) if value >= 1 << 63 else value})"


def test_module_runs_through_its_whole_lifecycle(tmp_path: Path) -> None:
    both = OneStream()
    made = connector(
        tmp_path,
        module(
            {
                "rb_open": b'{"ok":{"protocol_version":"1","features":["cdc"],"default_max_batch_bytes":1000}}',
                "rb_validate": b'{"ok":{"status":"warning","message":"slow"}}',
                "rb_discover": b'{"ok":{"streams":[]}}',
                "rb_run_read": b'{"ok":{"records_read":3,"bytes_read":10,"batches_emitted":1,"checkpoint_count":1}}',
                "rb_run_write": b'{"ok":{"records_written":3,"bytes_written":10,"batches_written":1,'
                b'"checkpoint_count":1,"perf":{"connect_secs":0.5,"flush_secs":1,"commit_secs":2}}}',
            }
        ),
        both,
    )
    assert made.open(OPEN) == OpenInfo("1", ["cdc"], 1000)  # type: ignore[list-item]
    assert made.validate(OPEN.config) == ValidationResult(ValidationStatus.WARNING, "slow")
    assert made.discover() == Catalog([])
    assert made.run_read(both.run.stream) == ReadSummary(3, 10, 1, 1)
    assert made.run_write(both.run.stream).perf is not None
    made.close()
    made.close()


def test_error_of_a_module_is_typed_and_an_inconsistent_one_is_corrected_and_logged(tmp_path: Path) -> None:
    both = OneStream()
    error = ConnectorError.auth("NO_PASSWORD", "refused").to_json()
    made = connector(tmp_path, module({"rb_open": b'{"err":' + error + b"}"}), both)
    with pytest.raises(ConnectorError) as caught:
        made.open(OPEN)
    assert (caught.value.code, caught.value.category, caught.value.retryable) == ("NO_PASSWORD", "auth", False)
    assert both.seen.lines == []
    wrong = error.replace(b'"retryable":false', b'"retryable":true')
    made = connector(tmp_path, module({"rb_open": b'{"err":' + wrong + b"}"}), both)
    with pytest.raises(ConnectorError) as caught:
        made.open(OPEN)
    assert not caught.value.retryable and not caught.value.safe_to_retry
    assert "never retryable" in both.seen.lines[0][2]


def test_another_protocol_version_is_refused_and_the_module_closed(tmp_path: Path) -> None:
    both = OneStream()
    says = "(drop (call $rb_host_log (i32.const 2) (i32.const 0) (i32.const 0))) (i32.const 0)"
    wasm = module({"rb_open": b'{"ok":{"protocol_version":"2"}}'}, bodies={"rb_close": says})
    made = connector(tmp_path, wasm, both)
    with pytest.raises(ConnectorError, match='version "2", expected "1"'):
        made.open(OPEN)
    assert len(both.seen.lines) == 1
    made.close()
    assert len(both.seen.lines) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("unreachable", "TRAP"),
        ("(i64.div_s (i64.const 1) (i64.const 0))", "TRAP"),
        (packed(1 << 31, 10), "BAD_POINTER"),
        (packed(65_530, 100), "BAD_POINTER"),
        (packed(0, (1 << 32) - 1), "BAD_RESULT"),
        ("(i64.const -1)", "BAD_RESULT"),
        ("(i64.const 0)", "BAD_RESULT"),
        (packed(0, 16), "BAD_RESULT"),
    ],
    ids=["unreachable", "division", "pointer", "length", "huge", "minus one", "nothing", "zeros"],
)
def test_module_that_traps_or_returns_bad_lengths_is_an_error(tmp_path: Path, body: str, code: str) -> None:
    made = connector(tmp_path, module(bodies={"rb_open": body}))
    with pytest.raises(ConnectorError) as caught:
        made.open(OPEN)
    assert caught.value.code == code and not caught.value.retryable
    made.close()


@pytest.mark.parametrize(
    "answer", [b"{}", b"[]", b'{"ok":1}', b'{"ok":{},"err":{}}', b'{"err":{"category":"x"}}', b"\xff"]
)
def test_unreadable_result_is_an_error(tmp_path: Path, answer: bytes) -> None:
    made = connector(tmp_path, module({"rb_open": answer}))
    with pytest.raises(ConnectorError, match="can't be read"):
        made.open(OPEN)


@pytest.mark.parametrize("pointer", ["(i32.const -1)", "(i32.const 65530)", "unreachable"])
def test_failing_allocator_is_an_error(tmp_path: Path, pointer: str) -> None:
    made = connector(tmp_path, module(bodies={"rb_allocate": pointer}))
    with pytest.raises(ConnectorError) as caught:
        made.open(OPEN)
    assert caught.value.code in ("BAD_POINTER", "TRAP")


def test_module_in_a_loop_is_interrupted_from_another_thread(tmp_path: Path) -> None:
    made = connector(tmp_path, module(bodies={"rb_run_read": "(loop (br 0)) unreachable"}))
    made.open(OPEN)
    threading.Timer(0.2, made.interrupt).start()
    began = time.monotonic()
    with pytest.raises(ConnectorError) as caught:
        made.run_read(OneStream().run.stream)
    assert caught.value.code == "CANCELLED" and time.monotonic() - began < 30


def test_memory_of_a_module_is_limited() -> None:
    grows = "(drop (memory.grow (i32.const 1600))) (i64.extend_i32_s (memory.size))"
    guest = Guest(module(bodies={"rb_open": grows}), "x.wasm", OneStream().source, memory_bytes=1 << 20)
    size = guest._exports["rb_open"](guest._store, 0, 0)
    assert size == 1  # the growth was refused
    guest = Guest(module(bodies={"rb_open": grows}), "x.wasm", OneStream().source)
    assert guest._exports["rb_open"](guest._store, 0, 0) == 1601


def test_tables_and_further_memories_of_a_module_are_limited() -> None:
    grows = "(i64.extend_i32_s (table.grow 0 (ref.null func) (i32.const 100000000)))"
    guest = Guest(module(bodies={"rb_open": grows}, more="(table 1 funcref)"), "x.wasm", OneStream().source)
    assert guest._exports["rb_open"](guest._store, 0, 0) == -1
    with pytest.raises(ConnectorError, match="memory count"):
        Guest(module(more="(memory 1)"), "x.wasm", OneStream().source)


def test_destination_that_returns_without_the_last_batch_is_an_error(tmp_path: Path) -> None:
    both = OneStream()
    small = "(drop (call $rb_host_next_batch (i32.const 0) (i32.const 8)))"
    path = tmp_path / "small.wasm"
    path.write_bytes(
        module(bodies={"rb_run_write": f"{small} {packed(20_000, 10)}"}, more=segment(20_000, b'{"ok":{}}  '))
    )
    made = WasmConnector(path, both.destination)
    made.open(OPEN)
    both.source.emit_batch(rows(1))
    both.source.end()
    with pytest.raises(ConnectorError) as caught:
        made.run_write(both.run.stream)
    assert caught.value.code == "ENDED_EARLY"


def test_host_function_may_be_called_from_the_allocator() -> None:
    both = OneStream()
    calls = "(drop (call $rb_host_log (i32.const 2) (i32.const 0) (i32.const 0))) (i32.const 32768)"
    guest = Guest(module(bodies={"rb_allocate": calls}), "x.wasm", both.source)
    assert guest.call("rb_validate", OPEN.config, ValidationResult).status is ValidationStatus.SUCCESS
    assert len(both.seen.lines) == 1


@pytest.mark.parametrize("wasm", [b"", b"not wasm", b"\0asm\x01\0\0\0"])
def test_file_that_is_no_module_is_refused(tmp_path: Path, wasm: bytes) -> None:
    with pytest.raises(ConnectorError) as caught:
        connector(tmp_path, wasm).open(OPEN)
    assert caught.value.code in ("BAD_MODULE", "MISSING_EXPORT")


def test_missing_file_and_a_module_that_is_not_open_are_errors(tmp_path: Path) -> None:
    missing = WasmConnector(tmp_path / "none.wasm", OneStream().source)
    with pytest.raises(ConnectorError, match="can't be read"):
        missing.open(OPEN)
    with pytest.raises(ConnectorError, match="not open"):
        missing.discover()


def test_failed_close_is_an_error(tmp_path: Path) -> None:
    made = connector(tmp_path, module(bodies={"rb_close": "(i32.const 7)"}))
    made.open(OPEN)
    with pytest.raises(ConnectorError, match="rb_close returned 7"):
        made.close()
