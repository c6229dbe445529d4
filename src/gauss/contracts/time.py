"""Time of processors that keep something until it has passed: how it is configured, and what they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pydantic import model_validator

from gauss.contracts.plugin import Millis, PluginConfig
from gauss.contracts.processor import Transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

EVENT, BEAT, END, ORDER = "_event", "_beat", "_end", "_order"
"""Columns of a reader that goes by time: a row's event time (a timestamp, under a watermark), whether it is no record
but a heartbeat, when its window ends, and its place among rows of the same time."""
EVENT_MS, OFFSET, SOURCE, INC = "_event_ms", "_offset", "_source", "_inc"
"""Columns that a `partial` is given beside the decoded fields."""
DELAY_MARK = "spark.watermarkDelayMs"
"""Spark closes a group once a key of it with this mark in its metadata is not behind the watermark."""


class TimeConfig(PluginConfig):
    """How a processor goes by time; part of its config."""

    event_time_field: str | None = None
    """The field that says when a record happened, in unix ms; left out: when it arrived (`ts_ms`)."""
    watermark: Millis | None = None
    """How much older than the newest a record may be and still count; left out: `10s` with `event_time_field`, else
    `0s`, since records arrive in the order of their arrival."""
    idle_timeout: Millis | None = None
    """With `event_time_field`: a source that has been silent this long lets time go on from its newest record, so that
    windows close; left out: they wait for the next record. Without `event_time_field` the clock closes them."""
    late: Literal["count", "dead_letter"] = "count"
    """What becomes of records behind the watermark: they are counted, and with `dead_letter` kept there too."""

    @model_validator(mode="after")
    def _idle_needs_a_field(self) -> TimeConfig:
        if self.idle_timeout is not None and self.event_time_field is None:
            raise ValueError("`idle_timeout` needs `event_time_field`: time of arrival goes on by the clock")
        return self

    def event_time(self, span_ms: int, step_ms: int, required: tuple[str, ...] = ()) -> EventTime:
        """What the machinery must know; see `EventTime`."""
        with_field = self.event_time_field is not None
        watermark = self.watermark if self.watermark is not None else 10_000 if with_field else 0
        field = (self.event_time_field or "").removeprefix("$.").removeprefix(".")
        return EventTime(field, watermark, span_ms, step_ms, self.idle_timeout, self.late, required)


@dataclass(frozen=True)
class EventTime:
    """How a transform goes by time."""

    field: str
    """Dotted name of the field with the event time in ms, empty: `ts_ms`."""
    watermark_ms: int
    span_ms: int
    """The longest that a record's effect waits for later ones: its largest window."""
    step_ms: int
    """Something can close only at multiples of this."""
    idle_ms: int | None = None
    late: str = "count"
    required: tuple[str, ...] = ()
    """Dotted names of fields without which a record can't be placed: it becomes a dead letter."""


class TimedTransform(Transform, Protocol):
    """A transform that keeps something until time has passed. Its `apply` gets records with `_event`, under the
    watermark, and `_beat`; it must carry `_beat` into its result (as a key, if it groups), where the writer drops the
    rows in which it is true. Late records never reach it."""

    time: EventTime


class PartialTransform(TimedTransform, Protocol):
    """One whose readers do a part of the work: what `apply` gets are the rows of `partial` and the heartbeats."""

    keeps_each: bool
    """Whether a partial is a record of its own, not what many have in common."""

    def partial_schema(self, fields: pa.Schema) -> pa.Schema:
        """The columns of a partial, given those that are decoded; `_event`, `_beat` and, if it has windows that end at
        a known time, `_end` are among them."""
        ...

    def partial(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Records (decoded fields, `_event_ms`, `_offset`, `_source`, `_inc`) → rows of `partial_schema`, in any type
        that can be cast to it; `_beat` may be left out."""
        ...


class Turn(NamedTuple):
    """What an epoch makes of the open rows."""

    results: pa.RecordBatch
    """Rows to write, with `_ts_ms`."""
    changes: pa.Table
    """Of the state's rows: those that are new or other than before, and those that are gone, with `closed` true."""
    open: pa.Table
    """The state's rows from now on."""


class KeptTransform(PartialTransform, Protocol):
    """One whose open rows are kept in a topic too. Its `apply` gives the state's rows that an epoch has changed."""

    def state_schema(self, fields: pa.Schema) -> pa.Schema:
        """The columns of a state's row, given those that are decoded; `window_key` is its key, `closed` its end."""
        ...

    def restored(self, rows: pa.Table) -> pa.RecordBatch:
        """Rows of the state as partials."""
        ...

    def opened(self, state: DataFrame) -> DataFrame:
        """The state's rows, as `apply` would give them, out of Spark's state store."""
        ...

    def turn(self, rows: pa.Table, changed: pa.Table, watermark_ms: int) -> Turn:
        """Closes what ends not behind the watermark."""
        ...
