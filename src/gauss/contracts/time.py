"""Event time: its configuration, and the transforms that keep state until the watermark passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pydantic import model_validator

from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.transform import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DELAY_MARK = "spark.watermarkDelayMs"
"""Metadata key of a grouping column: Spark closes the group when the watermark reaches the column's value."""


class TimeConfig(PluginConfig):
    """Event-time settings; part of a processor's config."""

    event_time_field: str | None = None
    """The field with the event time in Unix ms. Default: the arrival time (`ts_ms`)."""
    watermark: Millis | None = None
    """Maximum lateness: records older than (newest event time − `watermark`) are late. Default: `10s` with
    `event_time_field`, else `0s`."""
    idle_timeout: Millis | None = None
    """With `event_time_field`: the watermark of an idle source advances after this time, so that windows close.
    Default: never. Without `event_time_field` the clock closes windows."""
    late: Literal["count", "dead_letter"] = "count"
    """How late records are handled: counted, and with `dead_letter` also kept as dead letters."""

    @model_validator(mode="after")
    def _idle_needs_a_field(self) -> TimeConfig:
        if self.idle_timeout is not None and self.event_time_field is None:
            raise ValueError("`idle_timeout` needs `event_time_field`: arrival time advances by the clock")
        return self

    def event_time(self, span_ms: int, step_ms: int, required: tuple[str, ...] = ()) -> EventTime:
        """The settings with their defaults."""
        with_field = self.event_time_field is not None
        watermark = self.watermark if self.watermark is not None else 10_000 if with_field else 0
        field = (self.event_time_field or "").removeprefix("$.").removeprefix(".")
        return EventTime(field, watermark, span_ms, step_ms, self.idle_timeout, self.late, required)


@dataclass(frozen=True)
class EventTime:
    """Event-time settings of a transform."""

    field: str
    """Dotted name of the field with the event time in ms. Empty: `ts_ms`."""
    watermark_ms: int
    span_ms: int
    """The longest time that a record stays in the state: the largest window."""
    step_ms: int
    """Windows close only at multiples of this."""
    idle_ms: int | None = None
    late: str = "count"
    required: tuple[str, ...] = ()
    """Dotted names of required fields. A record without one becomes a dead letter."""


class TimedTransform(Transform, Protocol):
    """A transform that keeps state until the watermark passes: its traits have `time`. Its `apply` gets records with
    `_event`, under the watermark, and `_beat`; it must carry `_beat` into its result (as a key, if it groups), where
    the writer drops the rows in which it is true. Late records never reach it."""


class PartialTransform(TimedTransform, Protocol):
    """A transform whose readers pre-aggregate: `apply` gets the rows of `partial` and heartbeats instead of records."""

    def partial_schema(self, fields: pa.Schema) -> pa.Schema:
        """The columns of a partial, given the decoded fields; they include `_event`, `_beat` and, for windows with a
        known end, `_end`."""
        ...

    def partial(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `partial_schema`, in any types that can be cast to it, for records (decoded fields, `_event_ms`,
        `_offset`, `_source`, `_inc`); `_beat` may be left out."""
        ...


class ClosedWindows(NamedTuple):
    """The result of one epoch over the open rows."""

    results: pa.RecordBatch
    """Rows to write, with `_ts_ms`."""
    changes: pa.Table
    """State rows that are new or changed, and removed ones with `closed` true."""
    open: pa.Table
    """The state rows after the epoch."""


class KeptTransform(PartialTransform, Protocol):
    """A transform whose state rows are also stored in a topic. Its `apply` returns the rows that an epoch changed."""

    def state_schema(self, fields: pa.Schema) -> pa.Schema:
        """The columns of a state row, given the decoded fields; `window_key` is its key, `closed` marks its removal."""
        ...

    def restored(self, rows: pa.Table) -> pa.RecordBatch:
        """State rows as partials."""
        ...

    def opened(self, state: DataFrame) -> DataFrame:
        """The state rows, as returned by `apply`, read from Spark's state store."""
        ...

    def close_windows(self, rows: pa.Table, changed: pa.Table, watermark_ms: int) -> ClosedWindows:
        """Closes the windows whose end the watermark has reached."""
        ...
