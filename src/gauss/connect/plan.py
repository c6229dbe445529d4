"""What a sync will do: its streams, by the catalog of the source, each with the context of its connectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from gauss.config.sync_rules import collisions
from gauss.config.syncs import LEAST_BATCH_BYTES, MOST_BATCH_BYTES, StreamDef, SyncDef
from gauss.config.validate import did_you_mean
from gauss.connect.sides import find_spec
from gauss.connect.typed import typed
from gauss.contracts.connector.arrow_types import arrow_schema
from gauss.contracts.connector.connector import SchemaSource
from gauss.contracts.connector.cursor import CursorInfo, CursorType, CursorValue
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.lifecycle import Catalog, CatalogStream, OpenInfo
from gauss.contracts.connector.spec import DestinationSpec
from gauss.contracts.connector.stream import (
    OPERATION,
    Append,
    ColumnPolicy,
    Columns,
    Replace,
    SchemaEvolutionPolicy,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    Upsert,
    WriteMode,
)


@dataclass(frozen=True)
class StreamPlan:
    """One stream of a sync."""

    definition: StreamDef
    found: CatalogStream
    limits: StreamLimits
    policies: StreamPolicies
    exact: pa.Schema | None = None
    """The schema as the source itself has it, if it says."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def mode(self) -> SyncMode:
        return SyncMode(self.definition.mode)

    def schema(self) -> pa.Schema:
        """The Arrow schema of its rows at the destination; raises ConnectorError. A delete has values of the key only,
        so that other columns of a CDC stream are nullable; the operation is stored if changes are appended."""
        found = self.exact if self.exact is not None else arrow_schema(self.found.schema)
        if self.mode is not SyncMode.CDC:
            return found
        key = self.definition.key or tuple(self.found.primary_key or ())
        fields = [each.with_nullable(each.nullable or each.name not in key) for each in found]
        if self.definition.writing != "upsert":
            fields.append(pa.field(OPERATION, pa.string(), nullable=False))
        return pa.schema(fields, found.metadata)

    def context(self, cursor: CursorValue | None = None) -> StreamContext:
        """What both connectors are told, with the cursor of the last run."""
        return StreamContext(
            self.name,
            Columns(self.found.schema),
            self.mode,
            self._cursor_info(cursor),
            self.limits,
            self.policies,
            _write_mode(self.definition),
        )

    def _cursor_info(self, last: CursorValue | None) -> CursorInfo | None:
        if self.mode is SyncMode.FULL_REFRESH:
            return None
        field = self.definition.cursor or ""
        kind = CursorType.JSON if not field else cursor_type(self.schema().field(field).type)
        return CursorInfo(field, kind, last)


def plan_sync(sync: SyncDef, source: Any, opened: list[OpenInfo]) -> list[StreamPlan]:
    """The streams of a sync as an open source has them; raises ConnectorError with all faults."""
    catalog = discovered(source)
    has_schemas = isinstance(source, SchemaSource)
    if has_schemas:
        _refuse_unreadable(sync, source, catalog)
    plans = plan_streams(sync, catalog, opened)
    _refuse_collisions(sync, plans)
    return [replace(each, exact=_schema(source, each.context())) for each in plans] if has_schemas else plans


def discovered(source: Any) -> Catalog:
    """The catalog of a source; raises ConnectorError."""
    found = typed(source.discover)
    if not isinstance(found, Catalog):
        raise ConnectorError.internal("BAD_CATALOG", f"discover returns a Catalog, found {type(found).__name__}")
    return found


def _schema(source: SchemaSource, stream: StreamContext) -> pa.Schema:
    return typed(lambda: source.stream_schema(stream))


def _refuse_unreadable(sync: SyncDef, source: SchemaSource, catalog: Catalog) -> None:
    """Raises the source's error for a stream that there is, but that the user may not read."""
    known = {each.name for each in catalog.streams}
    for each in () if sync.streams == "*" else sync.streams:
        if each.name not in known:
            try:
                _schema(source, StreamContext(each.name, Columns([]), SyncMode.FULL_REFRESH))
            except ConnectorError as error:
                if error.category is ErrorCategory.PERMISSION:
                    raise


def _refuse_collisions(sync: SyncDef, plans: list[StreamPlan]) -> None:
    """Raises ConnectorError if two streams land in one table: those of `"*"` are known only now."""
    spec = find_spec("destination", sync.destination.connector)
    if not isinstance(spec, DestinationSpec) or "tables" not in spec.config.model_fields:
        return
    if found := [message for _, message in collisions(sync, [each.definition for each in plans], spec)]:
        hint = "name the streams, with a `table` for one of them, or set `tables` of the destination"
        raise ConnectorError.config("ONE_TABLE", "; ".join(found), hint=hint)


def plan_streams(sync: SyncDef, catalog: Catalog, opened: list[OpenInfo]) -> list[StreamPlan]:
    """The streams of a sync; raises ConnectorError with all faults. `opened`: what source and destination said."""
    known = {each.name: each for each in catalog.streams}
    there = [each.name for each in catalog.streams]
    if twice := sorted({name for name in there if there.count(name) > 1}) if len(known) < len(there) else []:
        raise ConnectorError.internal("BAD_CATALOG", f"the source names streams twice: {', '.join(twice)}")
    wanted = [StreamDef(name=name) for name in known] if sync.streams == "*" else list(sync.streams)
    faults = [fault for each in wanted if (fault := _fault(each, known))]
    names = [each.name for each in wanted]
    faults += [f'stream "{name}" is named twice' for name in sorted({each for each in names if names.count(each) > 1})]
    if not wanted:
        faults.append("the source has no streams")
    if faults:
        raise ConnectorError.config("BAD_STREAMS", "; ".join(faults))
    limits, policies = _limits(sync, opened), _policies(sync)
    return [StreamPlan(each, known[each.name], limits, policies) for each in wanted]


def _fault(wanted: StreamDef, known: dict[str, CatalogStream]) -> str:
    found = known.get(wanted.name)
    if found is None:
        near = did_you_mean(wanted.name, known) or f"it has {', '.join(sorted(known)[:20]) or 'none'}"
        return f'the source has no stream "{wanted.name}": {near}'
    if SyncMode(wanted.mode) not in found.supported_sync_modes:
        modes = ", ".join(found.supported_sync_modes)
        return f'stream "{wanted.name}" can\'t be read by {wanted.mode}, only by {modes}'
    columns = [each.name for each in found.schema]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        return f'stream "{wanted.name}" has two fields "{twice}": rename one of them'
    if wanted.mode == "cdc" and OPERATION in columns:
        return f'stream "{wanted.name}" has a field "{OPERATION}", which is the operation of a change: rename it'
    for name in (*([wanted.cursor] if wanted.cursor else []), *wanted.key):
        if name not in columns:
            near = did_you_mean(name, columns) or f"it has {', '.join(columns)}"
            return f'stream "{wanted.name}" has no field "{name}": {near}'
    return ""


def _limits(sync: SyncDef, opened: list[OpenInfo]) -> StreamLimits:
    """The configured limits; the size of batches is by default the smaller one of those that the connectors propose,
    within what could be configured."""
    given = sync.limits
    proposed = [each.default_max_batch_bytes for each in opened if each.default_max_batch_bytes]
    wanted = min(proposed, default=StreamLimits().max_batch_bytes)
    return StreamLimits(
        given.max_batch_bytes or min(max(wanted, LEAST_BATCH_BYTES), MOST_BATCH_BYTES),
        given.max_record_bytes,
        given.max_inflight_batches,
        given.max_parallel_requests,
    )


def _policies(sync: SyncDef) -> StreamPolicies:
    given = sync.policies.schema_evolution
    return StreamPolicies(
        sync.policies.on_data_error,
        SchemaEvolutionPolicy(
            given.new_column, ColumnPolicy(given.removed_column), given.type_change, given.nullability_change
        ),
    )


def _write_mode(stream: StreamDef) -> WriteMode:
    match stream.writing:
        case "upsert":
            return Upsert(list(stream.key))
        case "replace":
            return Replace()
        case _:
            return Append()


def cursor_type(kind: pa.DataType) -> CursorType:
    """How values of a column are kept as a cursor."""
    if pa.types.is_integer(kind):
        return CursorType.INT64
    if pa.types.is_decimal(kind):
        return CursorType.DECIMAL
    if pa.types.is_timestamp(kind):
        return CursorType.TIMESTAMP_MILLIS if kind.unit in ("s", "ms") else CursorType.TIMESTAMP_MICROS
    if pa.types.is_date(kind):
        return CursorType.TIMESTAMP_MILLIS
    return CursorType.UTF8
