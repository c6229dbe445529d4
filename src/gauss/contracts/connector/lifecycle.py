"""Opening, validating and discovering."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from gauss.contracts.connector.json_form import U64, Variant
from gauss.contracts.connector.stream import ColumnSchema, SyncMode

PROTOCOL_VERSION = "1"


class ConfigBlob(Variant):
    """A connector's config in some encoding."""


class JsonConfig(ConfigBlob, tag="json"):
    value: Any


class Feature(StrEnum):
    EXACTLY_ONCE = "exactly_once"
    CDC = "cdc"
    SCHEMA_AUTO_MIGRATE = "schema_auto_migrate"
    BULK_LOAD_COPY = "bulk_load_copy"
    BULK_LOAD_COPY_BINARY = "bulk_load_copy_binary"


class OpenContext(msgspec.Struct, frozen=True):
    config: ConfigBlob
    connector_id: str
    connector_version: str


class OpenInfo(msgspec.Struct, frozen=True):
    protocol_version: str = PROTOCOL_VERSION
    features: list[Feature] = []
    default_max_batch_bytes: U64 = 8 << 20


class ValidationStatus(StrEnum):
    SUCCESS = "success"
    WARNING = "warning"
    FAILED = "failed"


class ValidationResult(msgspec.Struct, frozen=True):
    status: ValidationStatus
    message: str = ""


class CatalogStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream that a source can read."""

    name: str
    schema: list[ColumnSchema]
    supported_sync_modes: list[SyncMode]
    primary_key: list[str] | None = None
    cursor_candidates: list[str] | None = None
    estimated_rows: U64 | None = None


class Catalog(msgspec.Struct, frozen=True):
    streams: list[CatalogStream]
