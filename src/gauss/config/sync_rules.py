"""Checks `[[syncs]]`: types, connectors and their settings, names at the destination."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gauss import registry
from gauss.config.faults import Scope
from gauss.config.strict import refuse_conversions
from gauss.config.syncs import ConnectorDef, StreamDef, SyncDef
from gauss.config.validate import report, validate
from gauss.contracts.connector.spec import ConnectorSpec, DestinationSpec, SourceSpec
from gauss.model.errors import PluginError

KINDS: dict[str, type[ConnectorSpec]] = {"source": SourceSpec, "destination": DestinationSpec}
WASM_SUFFIX = ".wasm"


def read_syncs(tables: list[tuple[Scope, dict[str, Any]]], base_dir: Path) -> list[tuple[Scope, SyncDef]]:
    """The entries without faults; all faults are reported."""
    found = []
    for scope, table in tables:
        sync = validate(SyncDef, table, scope, salvage=True)
        for role in KINDS:
            if isinstance(side := table.get(role), dict) and isinstance(side.get("connector"), str):
                _check_connector(role, ConnectorDef.model_validate(side), base_dir, scope.inside(role))
        if sync is not None:
            _check_cursors(sync, scope)
            _check_writes(sync, scope)
            _check_tables(sync, scope)
            found.append((scope, sync))
    return found


def _check_connector(role: str, definition: ConnectorDef, base_dir: Path, scope: Scope) -> None:
    name = definition.connector
    if name.endswith(WASM_SUFFIX):
        if not (base_dir / name).is_file():
            scope.add(("connector",), "the module does not exist", expected="a file", found=str(base_dir / name))
        return
    try:
        spec = _spec(role, name)
    except PluginError as error:
        scope.add(("connector",), error.message, hint=error.hint)
        return
    if spec is None:
        return
    try:
        refuse_conversions(definition.config, spec.validate(definition.config), scope)
    except ValidationError as error:
        report(error, spec.config, definition.config, scope)


def _spec(role: str, name: str) -> ConnectorSpec | None:
    """The spec of a connector; None for a class, whose settings only the class itself knows."""
    if ":" not in name:
        return registry.spec(KINDS[role], name)
    found = registry.load_path(name, role)
    return found if isinstance(found, KINDS[role]) else None


def _check_cursors(sync: SyncDef, scope: Scope) -> None:
    """Incremental streams have a cursor, unless the source has positions of its own."""
    name = sync.source.connector
    if ":" in name or name.endswith(WASM_SUFFIX) or scope.has("source", "connector"):
        return
    spec = registry.spec(SourceSpec, name)
    for index, stream in enumerate(sync.streams if sync.streams != "*" else ()):
        if stream.mode == "incremental" and stream.cursor is None and not spec.own_cursor:
            scope.add(
                ("streams", index, "cursor"),
                f'stream "{stream.name}": {name} needs a cursor for an increment',
                expected="the name of a field that grows",
            )


def _check_writes(sync: SyncDef, scope: Scope) -> None:
    """The destination can write as its streams ask."""
    name = sync.destination.connector
    if ":" in name or name.endswith(WASM_SUFFIX) or scope.has("destination", "connector"):
        return
    spec = registry.spec(DestinationSpec, name)
    for index, stream in enumerate(sync.streams if sync.streams != "*" else ()):
        if stream.writing not in spec.writes:
            scope.add(
                ("streams", index, "write"),
                f'stream "{stream.name}": {name} can\'t write by {stream.writing}',
                expected=f"one of {', '.join(sorted(spec.writes))}",
            )


def _check_tables(sync: SyncDef, scope: Scope) -> None:
    name = sync.destination.connector
    is_class = ":" in name or name.endswith(WASM_SUFFIX) or scope.has("destination", "connector")
    spec = None if is_class else registry.spec(DestinationSpec, name)
    for index, message in collisions(sync, sync.streams if sync.streams != "*" else (), spec):
        scope.add(("streams", index, "name"), message, hint="set `table` of one of them")


def collisions(sync: SyncDef, streams: Iterable[StreamDef], spec: DestinationSpec | None) -> Iterator[tuple[int, str]]:
    """The streams that would be written to the table of one before them, by their place."""
    tables, first = sync.tables, dict[str, str]()
    for index, stream in enumerate(streams):
        table = tables.get(stream.name) or (stream.name if spec and spec.whole_names else last_part(stream.name))
        if table in first:
            yield index, f'streams "{first[table]}" and "{stream.name}" would both be written to "{table}"'
        first.setdefault(table, stream.name)


def topics_fed(sync: SyncDef) -> list[str]:
    """The topics of a run that a sync writes to."""
    if sync.destination.connector != "topic" or sync.streams == "*":
        return []
    return [sync.tables.get(stream.name) or last_part(stream.name) for stream in sync.streams]


_PART = re.compile(r'"((?:[^"]|"")*)"|([^".]*)')


def last_part(name: str) -> str:
    """The last part of a name such as `schema.table`; parts may be quoted as in SQL. A name that is not written so is
    taken whole."""
    at = 0
    while found := _PART.match(name, at):
        at = found.end()
        if at == len(name):
            return found[1].replace('""', '"') if found[1] is not None else found[2]
        if name[at] != ".":
            return name
        at += 1
    return name
