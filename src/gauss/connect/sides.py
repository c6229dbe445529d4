"""The connectors that a sync names: by entry point, as a class of a module, or as a `.wasm` file."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gauss import registry
from gauss.config.sync_rules import KINDS, WASM_SUFFIX
from gauss.config.syncs import ConnectorDef, SyncDef
from gauss.connect.attempt import Side
from gauss.connect.host import StreamHost
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import JsonConfig
from gauss.contracts.connector.settings import setting_faults
from gauss.contracts.connector.spec import ConnectorSpec
from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import ConfigError, PluginError


def is_module(connector: str) -> bool:
    """Whether a connector is a WebAssembly file."""
    return connector.endswith(WASM_SUFFIX)


def find_spec(role: str, connector: str) -> ConnectorSpec | None:
    """The spec of a connector; None for a class without one and for a `.wasm` file. Raises PluginError."""
    if is_module(connector):
        return None
    if ":" not in connector:
        return registry.spec(KINDS[role], connector)
    found = _class(role, connector)
    return found if isinstance(found, ConnectorSpec) else None


def validated(spec: ConnectorSpec, config: dict[str, Any]) -> PluginConfig:
    """The settings of a connector by its model; raises ConfigError."""
    try:
        return spec.validate(config)
    except ValidationError as error:
        hint = f"see: gauss connectors spec {spec.name}"
        raise ConfigError(f"{spec.KIND} {spec.name}: {setting_faults(error)}", hint=hint) from None


def make_side(role: str, sync: SyncDef, base_dir: Path, data_dir: Path) -> Side:
    """The side of a sync. The settings are validated by the connector's model, if it has one. Raises ConfigError or
    PluginError."""
    definition: ConnectorDef = getattr(sync, role)
    name, config = definition.connector, dict(definition.config)
    spec = find_spec(role, name)
    if role == "destination" and sync.tables and (spec is None or "tables" in spec.config.model_fields):
        config["tables"] = sync.tables
    if is_module(name):
        path = base_dir / name
        return Side(lambda host: _wasm(path, host), f"{role}-{path.stem}", "1", JsonConfig(config))
    if spec is None:
        made = _class(role, name)
        return Side(made, f"{role}-{made.__name__}", "1", JsonConfig(config))
    known = spec.config.model_fields
    if "checkpoint" in known:
        config.setdefault("checkpoint", sync.checkpoint.model_dump())
    if "data_dir" in known:
        config.setdefault("data_dir", str(data_dir))
    validated(spec, config)
    return Side(lambda host: registry.build(spec, host), f"{role}-{spec.name}", spec.version, JsonConfig(config))


def _class(role: str, path: str) -> Any:
    """A class `module:Class` that takes a host, or a spec that stands under that name."""
    found = registry.load_path(path, role)
    if isinstance(found, ConnectorSpec):
        if not isinstance(found, KINDS[role]):
            raise PluginError(f'"{path}" is not a {role}, but a {found.KIND}')
        return found
    method = "run_read" if role == "source" else "run_write"
    if not inspect.isclass(found) or not hasattr(found, method):
        raise PluginError(f'"{path}" is not a {role}: expected a class with a method {method}')
    return found


def _wasm(path: Path, host: StreamHost) -> Any:
    try:
        from gauss.connect.wasm.connector import WasmConnector
    except ImportError as error:  # the wheel of wasmtime is not made for every platform
        raise ConnectorError.config("NO_WASMTIME", f"{path.name} needs wasmtime: {error}") from error
    return WasmConnector(path, host)
