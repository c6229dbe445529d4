"""Modules that do not implement protocol v1 are refused before their code runs, with a reason."""

from __future__ import annotations

import pytest
import wasmtime

from gauss.connect.wasm.gate import DEPRECATED, EXPORTS, RUNS, check_module
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from helpers.connectors import module


def checked(wasm: bytes) -> frozenset[str]:
    return check_module(wasmtime.Module(wasmtime.Engine(), wasm), "x.wasm")


def refused(wasm: bytes) -> ConnectorError:
    with pytest.raises(ConnectorError) as caught:
        checked(wasm)
    assert caught.value.category is ErrorCategory.CONFIG and not caught.value.retryable
    return caught.value


@pytest.mark.parametrize("roles", [("source",), ("destination",), ("source", "destination")])
def test_module_with_all_exports_is_accepted_for_its_roles(roles: tuple[str, ...]) -> None:
    assert checked(module(roles=roles)) == frozenset(roles)


@pytest.mark.parametrize("old", ["rb_init", "rb_read", "rb_write_batch", "rb_write_finalize"])
def test_module_of_protocol_0_is_refused_with_a_hint_to_rebuild(old: str) -> None:
    wasm = bytes(wasmtime.wat2wasm(f'(module (func (export "{old}")))'))
    assert refused(wasm).message == DEPRECATED


@pytest.mark.parametrize("name", [*EXPORTS, *RUNS["source"], "memory"])
def test_missing_export_is_named(name: str) -> None:
    error = refused(module(roles=("source",), without=(name,)))
    assert error.code == "MISSING_EXPORT" and name in error.message


def test_module_that_neither_reads_nor_writes_is_refused() -> None:
    assert "rb_run_read or rb_run_write" in refused(module(roles=())).message


@pytest.mark.parametrize("name", [*EXPORTS, *RUNS["source"]])
def test_export_with_a_wrong_signature_is_refused(name: str) -> None:
    wasm = module(roles=("source",), without=(name,), more=f'(func (export "{name}") (param f64))')
    error = refused(wasm)
    assert error.code == "WRONG_SIGNATURE" and name in error.message and "(f64) -> ()" in error.message


def test_export_that_is_no_function_is_refused() -> None:
    wasm = module(without=("rb_open",), more='(global (export "rb_open") i32 (i32.const 1))')
    assert "not a function" in refused(wasm).message


def with_import(line: str) -> bytes:
    """A source that imports one more; imports come first in a module, so it is written whole."""
    exports = " ".join(
        f'(func (export "{name}") {"(param " + " ".join(given) + ")" if given else ""}'
        f" {'(result ' + made[0] + ')' if made else ''} unreachable)"
        for name, (given, made) in {**EXPORTS, **RUNS["source"]}.items()
    )
    return bytes(wasmtime.wat2wasm(f'(module {line} (memory (export "memory") 1) {exports})'))


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("rb_host_emit_record_batch", "rb_host_emit_batch"),
        ("rb_host_get_state", "rb_host_state_get"),
        ("rb_host_set_state", "rb_host_state_put"),
    ],
)
def test_removed_import_is_refused_with_its_replacement(name: str, instead: str) -> None:
    error = refused(with_import(f'(import "env" "{name}" (func (param i32 i32)))'))
    assert error.code == "REMOVED_IMPORT" and instead in error.message


@pytest.mark.parametrize(
    "line",
    [
        '(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))',
        '(import "env" "open" (func (param i32) (result i32)))',
        '(import "other" "rb_host_log" (func (param i32 i32 i32) (result i32)))',
    ],
)
def test_imports_of_files_sockets_and_clocks_are_refused(line: str) -> None:
    assert refused(with_import(line)).code == "UNKNOWN_IMPORT"


@pytest.mark.parametrize(
    "line",
    [
        '(import "env" "rb_host_log" (func (param i32 i32)))',
        '(import "env" "rb_host_log" (memory 1))',
        '(import "env" "rb_host_report_progress" (func (param i32 i32) (result i32)))',
    ],
)
def test_import_with_a_wrong_signature_is_refused(line: str) -> None:
    assert refused(with_import(line)).code == "WRONG_SIGNATURE"
