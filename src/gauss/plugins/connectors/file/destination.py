"""The `file` destination: writes each stream to files in a folder of its own, exactly once."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from gauss.contracts.connector.connector import Watermark, partition_key
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.contracts.connector.json_form import decode
from gauss.contracts.connector.lifecycle import (
    ConfigBlob,
    Feature,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import WriteSummary
from gauss.contracts.connector.settings import typed_config
from gauss.contracts.connector.stream import Replace, StreamContext, SyncMode, Upsert
from gauss.plugins.connectors.file.atomic import make_folder
from gauss.plugins.connectors.file.column_types import check_types, merged
from gauss.plugins.connectors.file.commit_writer import CommitWriter
from gauss.plugins.connectors.file.data_folder import Writer
from gauss.plugins.connectors.file.destination_spec import FileDestinationConfig
from gauss.plugins.connectors.file.io_errors import file_errors
from gauss.plugins.connectors.file.listing import resolve
from gauss.plugins.connectors.file.stream_store import StreamStore
from gauss.plugins.connectors.file.write_run import Target, WriteRun

_SCHEMA = " -- schema "


class FileDestination:
    """Writes files. Implements `Destination` and `ManagedDestination`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._config = FileDestinationConfig(path=".")

    def open(self, context: OpenContext) -> OpenInfo:
        self._config = typed_config(context.config, FileDestinationConfig)
        return OpenInfo(features=[Feature.EXACTLY_ONCE, Feature.SCHEMA_AUTO_MIGRATE])

    def validate(self, config: ConfigBlob) -> ValidationResult:
        """Makes the directory, and writes to it."""
        root = resolve(typed_config(config, FileDestinationConfig).path)
        probe = root / f".gauss-probe-{id(self)}"
        with file_errors(root, "write"):
            make_folder(root)
            probe.touch()
            probe.unlink()
        return ValidationResult(ValidationStatus.SUCCESS, f"{root} can be written")

    def close(self) -> None:
        pass

    # --- what the host manages ---

    def landed(self, schema: pa.Schema) -> pa.Schema:
        check_types(schema, self._config.format)
        return schema.remove_metadata()

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        store = self._store(stream)
        with file_errors(store.live.path, "read"):
            return store.live.schema()

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        """One line for a person, with the schema for `prepare` behind it."""
        schema = merged(live, wanted)
        if live is not None and live.equals(schema):
            return []
        columns = ", ".join(f"{each.name} {each.type}{'' if each.nullable else ' not null'}" for each in schema)
        packed = base64.b64encode(schema.serialize()).decode()
        return [f"set columns of {self._store(stream).live.path}: {columns}{_SCHEMA}{packed}"]

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        _refuse_upsert(stream)
        schema = None
        for each in statements:
            packed = each.rpartition(_SCHEMA)[2]
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(packed)))
        store = self._store(stream)
        with file_errors(store.live.path, "write"):
            store.prepare(generation, schema, staged=_is_staged(stream), keep=_keeps(stream))

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        store = self._store(stream)
        with file_errors(store.live.path, "read"):
            found = store.live.written(self._writer(partition))
            if _is_staged(stream):
                generation = store.generation()
                staged = store.staging(generation or 0).written(self._writer(partition))
                # What an earlier full refresh has written says nothing about this one.
                found = staged or (found if found is not None and found.generation == generation else None)
        if found is None:
            return None
        return Watermark(found.generation, found.id, _cursor(found.cursor), found.done)

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:  # noqa: ARG002
        return ""

    def finish(self, stream: StreamContext, generation: int) -> None:
        if _is_staged(stream):
            store = self._store(stream)
            with file_errors(store.live.path, "write"):
                store.finish(generation, keep=_keeps(stream))

    # --- writing ---

    def run_write(self, stream: StreamContext) -> WriteSummary:
        _refuse_upsert(stream)
        store, generation = self._store(stream), self._host.generation
        with file_errors(store.live.path, "write"):
            if store.generation() != generation:  # by a host that does not manage
                store.prepare(generation, None, staged=_is_staged(stream), keep=_keeps(stream))
            folder = store.staging(generation) if _is_staged(stream) else store.live
            writer = self._writer(partition_key(self._host.partition))
            target = Target(store, folder, writer, staged=_is_staged(stream))
        rows = CommitWriter(folder, writer, self._config, generation)
        try:
            return WriteRun(self._host, stream, target, rows)()
        finally:
            rows.abandon()

    def _store(self, stream: StreamContext) -> StreamStore:
        name = stream.stream_name
        return StreamStore(self._root, self._config.tables.get(name) or name, self._host.pipeline)

    def _writer(self, partition: str) -> Writer:
        return Writer(self._host.pipeline, partition)

    @property
    def _root(self) -> Path:
        return resolve(self._config.path)


def _is_staged(stream: StreamContext) -> bool:
    """Whether rows become visible at the end."""
    return stream.sync_mode is SyncMode.FULL_REFRESH


def _keeps(stream: StreamContext) -> bool:
    """Whether the files that there are stay."""
    return not isinstance(stream.write_mode, Replace)


def _refuse_upsert(stream: StreamContext) -> None:
    if isinstance(stream.write_mode, Upsert):
        raise ConnectorError.config(
            "NO_UPSERT", "files are never changed: expected write = append or replace, found upsert"
        )


def _cursor(value: Any) -> CursorValue | None:
    return None if value is None else decode(msgspec.json.encode(value), CursorValue)
