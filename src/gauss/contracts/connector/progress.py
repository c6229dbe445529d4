"""Checkpoints, state scopes, summaries and metrics."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.json_form import U64, Variant
from gauss.contracts.connector.lifecycle import PROTOCOL_VERSION


class CheckpointKind(StrEnum):
    SOURCE = "source"
    DEST = "dest"


class Checkpoint(msgspec.Struct, frozen=True):
    """A source's: batches 1 to `id` were emitted, and the cursor is behind them. A destination's: batches 1 to `id` are
    durably committed."""

    id: U64
    kind: CheckpointKind
    stream: str
    cursor_field: str | None = None
    cursor_value: CursorValue | None = None
    records_processed: U64 = 0
    bytes_processed: U64 = 0


class StateScope(StrEnum):
    PIPELINE = "pipeline"
    STREAM = "stream"
    CONNECTOR_INSTANCE = "connector_instance"


class ReadSummary(msgspec.Struct, frozen=True):
    records_read: U64 = 0
    bytes_read: U64 = 0
    batches_emitted: U64 = 0
    checkpoint_count: U64 = 0


class WritePerf(msgspec.Struct, frozen=True):
    connect_secs: float = 0.0
    flush_secs: float = 0.0
    commit_secs: float = 0.0


class WriteSummary(msgspec.Struct, frozen=True):
    records_written: U64 = 0
    bytes_written: U64 = 0
    batches_written: U64 = 0
    checkpoint_count: U64 = 0
    perf: WritePerf | None = None


class MetricValue(Variant):
    """The value of a metric and how values are combined."""


class Counter(MetricValue, tag="counter"):
    value: U64


class Gauge(MetricValue, tag="gauge"):
    value: float


class Histogram(MetricValue, tag="histogram"):
    value: float


class Metric(msgspec.Struct, frozen=True):
    name: str
    value: MetricValue
    labels: list[tuple[str, str]] = []


class CheckpointEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as it travels."""

    protocol_version: str = PROTOCOL_VERSION
    connector_id: str
    stream_name: str
    checkpoint: Checkpoint


class MetricEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A metric as it travels."""

    protocol_version: str = PROTOCOL_VERSION
    connector_id: str
    stream_name: str
    metric: Metric
