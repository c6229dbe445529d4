"""What a connector is told of the stream that it reads or writes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gauss.contracts.connector.cursor import CursorInfo
from gauss.contracts.connector.json_form import U32, U64, Variant

OPERATION = "_op"
"""The column of a CDC stream that says what happened to a row."""


class Operation(StrEnum):
    """Values of `OPERATION`. A destination that upserts deletes the row of a `delete` by its key and does not store
    the column; one that appends stores every change with it."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    """Only the fields of the key have values."""


class SyncMode(StrEnum):
    FULL_REFRESH = "full_refresh"
    INCREMENTAL = "incremental"
    CDC = "cdc"


class WriteMode(Variant):
    """How a destination writes rows."""


class Append(WriteMode, tag="append"):
    pass


class Replace(WriteMode, tag="replace"):
    pass


class Upsert(WriteMode, tag="upsert", inline=False):
    primary_key: list[str]


class ColumnSchema(msgspec.Struct, frozen=True):
    name: str
    data_type: str
    """Arrow's name, such as `Int64`."""
    nullable: bool = True


class SchemaHint(Variant):
    """The schema of a stream as far as it is known."""


class Columns(SchemaHint, tag="columns"):
    columns: list[ColumnSchema]


class ArrowIpcSchema(SchemaHint, tag="arrow_ipc_schema"):
    schema: bytes
    """A schema-only IPC message."""


class StreamLimits(msgspec.Struct, frozen=True):
    max_batch_bytes: U64 = 8 << 20
    max_record_bytes: U64 = 4 << 20
    max_inflight_batches: U32 = 8
    max_parallel_requests: U32 = 1


class DataErrorPolicy(StrEnum):
    SKIP = "skip"
    FAIL = "fail"
    DLQ = "dlq"


class ColumnPolicy(StrEnum):
    ADD = "add"
    IGNORE = "ignore"
    FAIL = "fail"


class TypeChangePolicy(StrEnum):
    COERCE = "coerce"
    FAIL = "fail"
    NULL = "null"


class NullabilityPolicy(StrEnum):
    ALLOW = "allow"
    FAIL = "fail"


class SchemaEvolutionPolicy(msgspec.Struct, frozen=True):
    new_column: ColumnPolicy = ColumnPolicy.ADD
    removed_column: ColumnPolicy = ColumnPolicy.IGNORE
    type_change: TypeChangePolicy = TypeChangePolicy.COERCE
    nullability_change: NullabilityPolicy = NullabilityPolicy.ALLOW


class StreamPolicies(msgspec.Struct, frozen=True):
    on_data_error: DataErrorPolicy = DataErrorPolicy.FAIL
    schema_evolution: SchemaEvolutionPolicy = SchemaEvolutionPolicy()


class StreamContext(msgspec.Struct, frozen=True):
    stream_name: str
    schema: SchemaHint
    sync_mode: SyncMode
    cursor_info: CursorInfo | None = None
    limits: StreamLimits = StreamLimits()
    policies: StreamPolicies = StreamPolicies()
    write_mode: WriteMode | None = None
    """For destinations."""
