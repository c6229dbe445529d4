"""The connector under test in one of its roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gauss import registry
from gauss.config.sync_rules import KINDS
from gauss.config.syncs import ConnectorDef, SyncDef
from gauss.connect.conformance import collector, generator
from gauss.connect.conformance.case import Role
from gauss.connect.embedded_sides import embedded_servers
from gauss.connect.sides import find_spec, is_module
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.spec import ConnectorSpec
from gauss.model.errors import ConfigError, PluginError
from gauss.model.paths import DataDir

OTHER = {Role.SOURCE: Role.DESTINATION, Role.DESTINATION: Role.SOURCE}


@dataclass(frozen=True)
class Target:
    """A connector with its settings."""

    connector: str
    role: Role
    config: dict[str, Any]
    base_dir: Path
    spec: ConnectorSpec | None = None

    @property
    def is_module(self) -> bool:
        return is_module(self.connector)

    def definition(self, **config: Any) -> ConnectorDef:
        """The connector for a sync, with some other settings."""
        return ConnectorDef(connector=self.connector, **{**self.config, **config})


def roles_of(connector: str, base_dir: Path) -> list[Role]:
    """The roles that a connector has; raises ConfigError. A module that the gate refuses has both."""
    if is_module(connector):
        if not (base_dir / connector).is_file():
            raise ConfigError(f"the module {connector} does not exist", hint=f"relative paths start at {base_dir}")
        return _module_roles(base_dir / connector)
    if ":" in connector:
        try:
            found = registry.load_path(connector, "connector")
        except PluginError as error:
            raise ConfigError(error.message, hint=error.hint) from error
        if isinstance(found, ConnectorSpec):
            return [Role(found.KIND)]
        methods = {Role.SOURCE: "run_read", Role.DESTINATION: "run_write"}
        roles = [role for role, method in methods.items() if hasattr(found, method)]
        if not roles:
            raise ConfigError(f'"{connector}" is no connector: expected a class with a method run_read or run_write')
        return roles
    roles = [role for role in Role if connector in registry.names(KINDS[role])]
    if not roles:
        known = sorted({name for kind in KINDS.values() for name in registry.names(kind)})
        raise ConfigError(f'no connector "{connector}"', hint=f"installed: {', '.join(known)}")
    return roles


def _module_roles(path: Path) -> list[Role]:
    from gauss.connect.conformance.cases.gate import module_roles

    try:
        return sorted(Role(role) for role in module_roles(path))
    except ConnectorError:  # the case of the gate says why
        return [Role.SOURCE]


@contextmanager
def targets(
    connector: str, roles: list[Role], settings: dict[Role, dict[str, Any]], base_dir: Path, data_dir: Path
) -> Iterator[dict[Role, Target]]:
    """The connector in each role, with the address of an embedded server where its settings name none. Other roles of
    the same name are included: the kit reads and writes by them."""
    made = {
        role: Target(connector, role, settings[role], base_dir, find_spec(role, connector))
        for role in roles_of(connector, base_dir)
    }
    for role, target in made.items():
        if role not in roles or not settings[role]:
            made[role] = replace(target, config={**_shared(target, settings[OTHER[role]]), **settings[role]})
    source = made[Role.SOURCE].definition() if Role.SOURCE in made else ConnectorDef(connector=generator.NAME)
    landing = (
        made[Role.DESTINATION].definition() if Role.DESTINATION in made else ConnectorDef(connector=collector.NAME)
    )
    sync = SyncDef(name="kit", source=source, destination=landing)
    with embedded_servers(sync, DataDir(data_dir)) as filled:
        yield {role: replace(target, config=getattr(filled, role).config) for role, target in made.items()}


def _shared(target: Target, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the other role that this one knows too, such as an address."""
    if target.spec is None:
        return dict(settings)
    known = {field.alias or name for name, field in target.spec.config.model_fields.items()}
    return {key: value for key, value in settings.items() if key in known}
