"""Modules that give the host bad pointers, or call it at unusual times."""

from __future__ import annotations

from pathlib import Path

import pytest

from gauss.connect.wasm.connector import WasmConnector
from gauss.connect.wasm.guest import Guest
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext
from helpers.connectors import DOORS, MEMORY_BYTES, OneStream, module

OPEN = OpenContext(JsonConfig({}), "sample", "1.0")
CALLS = {
    "emit_batch": (MEMORY_BYTES - 4, 100),
    "state_put": (1, MEMORY_BYTES - 4, 100, 0, 1),
    "state_get": (1, MEMORY_BYTES - 4, 100, 0, 10),
    "checkpoint": (0, (1 << 32) - 1, 100),
    "log": (2, MEMORY_BYTES, 1),
    "metric": ((1 << 32) - 8, 8),
}
"""A pointer, or its length, outside the memory."""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("function", CALLS)
def test_bad_pointer_in_a_call_to_the_host_is_an_error_and_the_next_call_works(door: str, function: str) -> None:
    both = OneStream()
    made = DOORS[door](both.source)
    assert made.call(function, *CALLS[function]) == -1
    length = made.call("last_error", 0, 4096)
    assert b"MEMORY_FAULT" in made.memory.read(0, length)
    assert made.call("report_progress", 1, 1) == 0 and both.seen.letters == []


HOST_CALLS = """
(drop (call $rb_host_log (i32.const 2) (i32.const 0) (i32.const 0)))
(drop (call $rb_host_state_put (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 1024) (i32.const 1)))
(drop (call $rb_host_last_error (i32.const 0) (i32.const 10)))
"""


@pytest.mark.parametrize("function", ["rb_allocate", "rb_deallocate", "rb_open", "rb_close"])
def test_host_functions_can_be_called_from_every_export(tmp_path: Path, function: str) -> None:
    answer = {"rb_allocate": "(i32.const 32768)", "rb_deallocate": "", "rb_close": "(i32.const 0)"}
    if function == "rb_open":
        answer["rb_open"] = f"(i64.const {1024 << 32 | 63})"
    both, path = OneStream(), tmp_path / "sample.wasm"
    path.write_bytes(module(bodies={function: HOST_CALLS + answer[function]}))
    made = WasmConnector(path, both.source)
    made.open(OPEN)
    made.close()
    assert both.seen.lines and list(both.state.values.values()) == [b"{"]


def test_host_function_called_by_a_start_function_fails_without_memory() -> None:
    both = OneStream()
    begin = "(func $begin (drop (call $rb_host_log (i32.const 2) (i32.const 0) (i32.const 4)))) (start $begin)"
    made = Guest(module(more=begin), "x.wasm", both.source)
    assert both.seen.lines == [] and made.functions.failure is not None
    assert made.functions.failure.code == "MEMORY_FAULT"
