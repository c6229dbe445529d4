"""WebAssembly modules: the gate that refuses other protocols."""

from __future__ import annotations

from pathlib import Path

from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable
from gauss.contracts.connector.errors import ConnectorError

GATE = ("wasm.gate",)


def module_roles(path: Path) -> frozenset[str]:
    """The roles of a module; raises ConnectorError with the reason of the gate."""
    import wasmtime

    from gauss.connect.wasm.gate import check_module

    try:
        module = wasmtime.Module(wasmtime.Engine(), path.read_bytes())
    except wasmtime.WasmtimeError as error:
        raise ConnectorError.config("BAD_MODULE", f"{path.name} is not a WebAssembly module: {error}") from error
    return check_module(module, path.name)


@CASES.both("wasm.gate", "A module exports rb_* of protocol v1, with their signatures, and imports rb_host_* only.")
def passes_the_gate(bench: Bench) -> None:
    if not bench.target.is_module:
        raise NotApplicable("not a .wasm file")
    try:
        module_roles(bench.target.base_dir / bench.target.connector)
    except ConnectorError as error:
        raise CaseFailed(error.message) from None
