"""The gate: refuses modules that do not speak protocol v1, before any of their code runs."""

from __future__ import annotations

import wasmtime

from gauss.contracts.connector.errors import ConnectorError

OLD_EXPORTS = frozenset({"rb_init", "rb_read", "rb_write_batch", "rb_write_finalize"})
DEPRECATED = "Connector uses deprecated protocol v0. Rebuild with rapidbyte-sdk >= 0.5."

Signature = tuple[tuple[str, ...], tuple[str, ...]]
_CALL: Signature = (("i32", "i32"), ("i64",))
EXPORTS: dict[str, Signature] = {
    "rb_allocate": (("i32",), ("i32",)),
    "rb_deallocate": (("i32", "i32"), ()),
    "rb_open": _CALL,
    "rb_validate": _CALL,
    "rb_close": ((), ("i32",)),
}
"""What every module exports, beside its memory."""
RUNS: dict[str, dict[str, Signature]] = {
    "source": {"rb_discover": _CALL, "rb_run_read": _CALL},
    "destination": {"rb_run_write": _CALL},
}
"""What a source or destination exports in addition."""
IMPORTS: dict[str, Signature] = {
    "rb_host_emit_batch": (("i32", "i32"), ("i32",)),
    "rb_host_next_batch": (("i32", "i32"), ("i32",)),
    "rb_host_last_error": (("i32", "i32"), ("i32",)),
    "rb_host_state_get": (("i32",) * 5, ("i32",)),
    "rb_host_state_put": (("i32",) * 5, ("i32",)),
    "rb_host_checkpoint": (("i32", "i32", "i32"), ("i32",)),
    "rb_host_log": (("i32", "i32", "i32"), ("i32",)),
    "rb_host_metric": (("i32", "i32"), ("i32",)),
    "rb_host_report_progress": (("i64", "i64"), ("i32",)),
}
"""What a module may import, from `env`."""
REMOVED_IMPORTS = {
    "rb_host_emit_record_batch": "rb_host_emit_batch",
    "rb_host_get_state": "rb_host_state_get",
    "rb_host_set_state": "rb_host_state_put",
}


def check_module(module: wasmtime.Module, name: str) -> frozenset[str]:
    """The roles of a module: `source`, `destination` or both. Raises ConnectorError."""
    exports = {each.name: each.type for each in module.exports}
    if OLD_EXPORTS & exports.keys() and "rb_open" not in exports:
        raise ConnectorError.config("DEPRECATED_PROTOCOL", DEPRECATED)
    roles = frozenset(role for role in RUNS if f"rb_run_{_verb(role)}" in exports)
    wanted = dict(EXPORTS)
    for role in roles:
        wanted |= RUNS[role]
    missing = [each for each in wanted if each not in exports]
    if not roles:
        missing.append("rb_run_read or rb_run_write")
    if not isinstance(exports.get("memory"), wasmtime.MemoryType):
        missing.append("memory")
    if missing:
        raise ConnectorError.config("MISSING_EXPORT", f"{name} does not export {', '.join(missing)}")
    for each, signature in wanted.items():
        _check_signature(f"{name}: the export {each}", exports[each], signature)
    for imported in module.imports:
        _check_import(name, imported)
    return roles


def _verb(role: str) -> str:
    return "read" if role == "source" else "write"


def _check_import(name: str, imported: wasmtime.ImportType) -> None:
    wanted = imported.name or ""
    if wanted in REMOVED_IMPORTS:
        raise ConnectorError.config(
            "REMOVED_IMPORT",
            f"{name} imports {wanted}, which protocol v1 has removed: it calls {REMOVED_IMPORTS[wanted]} instead",
        )
    if imported.module != "env" or wanted not in IMPORTS:
        raise ConnectorError.config(
            "UNKNOWN_IMPORT",
            f"{name} imports {imported.module}.{wanted}, which the host does not have: a connector gets no file, socket"
            " or clock, only the functions rb_host_* of module env",
        )
    _check_signature(f"{name}: the import {wanted}", imported.type, IMPORTS[wanted])


def _check_signature(what: str, found: object, wanted: Signature) -> None:
    if not isinstance(found, wasmtime.FuncType):
        raise ConnectorError.config("WRONG_SIGNATURE", f"{what} is not a function")
    given = tuple(str(each) for each in found.params), tuple(str(each) for each in found.results)
    if given != wanted:
        raise ConnectorError.config(
            "WRONG_SIGNATURE", f"{what} has the signature {_shown(given)}, expected {_shown(wanted)}"
        )


def _shown(signature: Signature) -> str:
    return f"({', '.join(signature[0])}) -> ({', '.join(signature[1])})"
