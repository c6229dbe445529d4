"""Read plans of tasks: ranges of topics for a processor, and the kinds of reads of streaming queries.

A plan is passed as JSON in an option of Spark's data source and never contains the token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from gauss.clients.engine.positions import Ends, Timing
from gauss.model.names import BEAT, DATA_COLUMN, EVENT, EVENT_MS, ORDER, TS_MS_COLUMN
from gauss.stream.driver.planning.refs import FormatRef, TransformRef, decode_schema

if TYPE_CHECKING:
    from gauss.stream.driver.tasks.reading import Part, Range

BLOCK_ROWS = 65_536
"""Ranges are cut at multiples of this, whatever the number of cores, so that a replay makes the same blocks."""
STATEFUL_MS = 1000
"""Minimum target duration of a batch with state."""
ORDERED = pa.struct([("source", pa.int32()), ("inc", pa.int64()), ("part", pa.int32()), ("off", pa.int64())])
"""The rank of a record among those of the same event time."""
FIRST, LAST, NUMBER, BLOCK = "_block_first", "_block_last", "_number", "_block"
BLOCKS = pa.schema(
    [
        (EVENT, pa.timestamp("us", "UTC")),
        (BEAT, pa.bool_()),
        (FIRST, pa.int64()),
        (LAST, pa.int64()),
        (NUMBER, pa.string()),
        (BLOCK, pa.binary()),
    ]
)
"""Records of about the same event time as one row: the first and last event time, a name, and the records."""


class RangeRead(msgspec.Struct, frozen=True):
    """How a task reads ranges of topics: for which processor, and what it decodes."""

    flight: str
    """Path of the file with the engine's address and token."""
    processor: str
    generation: int
    format: FormatRef | None = None
    fields: str = ""
    """The decoded fields: an Arrow schema as base64."""
    keep_data: bool = True
    """Whether the rows include the record's bytes as `_data`."""
    member: str = ""
    """The processor of a chain that the records are read for."""
    outside: list[str] = []
    """Topics that tasks read from their outside system themselves."""
    times: tuple[int, int | None] | None = None
    """Only records of [from, to) are wanted of these topics."""

    @property
    def with_offsets(self) -> bool:
        """Whether decoded records keep their offset."""
        return False

    def decoded(self) -> pa.Schema:
        return decode_schema(self.fields)


class QueryRead(RangeRead, frozen=True, kw_only=True):
    """The reader of a streaming query; its kinds below differ in the rows that they make of records."""

    start: Ends
    mode: str = "offset"
    """The read mode of the source."""
    tasks: int = 0
    """Number of tasks that the ranges of a batch are spread over; 0: one per range."""
    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20
    target_ms: int = 200

    @property
    def timing(self) -> Timing | None:
        """Event-time settings; None if the query does not use event time."""
        return None

    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        raise NotImplementedError

    def run(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Reads a part of a batch inside a task."""
        raise NotImplementedError

    def option(self) -> str:
        return msgspec.json.encode(self).decode()

    def _record_columns(self) -> list[pa.Field]:
        columns = [*self.decoded(), pa.field(TS_MS_COLUMN, pa.int64())]
        return [*columns, pa.field(DATA_COLUMN, pa.binary())] if self.keep_data else columns


class ReadRecords(QueryRead, frozen=True, kw_only=True, tag="records"):
    """Returns each record as a row: its fields, its time and optionally its bytes."""

    def schema(self) -> pa.Schema:
        return pa.schema(self._record_columns())

    def run(self, part: Part) -> Iterator[pa.RecordBatch]:
        from gauss.stream.driver.tasks.reading import Range, read_decoded

        assert isinstance(part, Range)
        return read_decoded(self, part)


class TimePlan(msgspec.Struct, frozen=True):
    """How a reader finds event times and diverts late records."""

    field: str
    """The decoded column with the event time; empty: the time of the record itself."""
    timing: Timing
    late_letters: bool = False
    """Whether late records become dead letters."""
    required: list[str] = []
    """Columns without which a record becomes a dead letter."""


class TimedRead(QueryRead, frozen=True, kw_only=True):
    """A read by event time, which also returns heartbeats."""

    time: TimePlan

    @property
    def with_offsets(self) -> bool:
        return True

    @property
    def timing(self) -> Timing:
        return self.time.timing

    def rows(self, part: Range, records: pa.RecordBatch, events: pa.Array, given: int) -> pa.RecordBatch:
        """The rows of decoded records, whose event times are `events`; `given`: rows of this range so far."""
        raise NotImplementedError

    def run(self, part: Part) -> Iterator[pa.RecordBatch]:
        from gauss.stream.driver.tasks.event_time_reader import read_timed

        return read_timed(self, part)


class ReadTimed(TimedRead, frozen=True, kw_only=True, tag="timed"):
    """Returns each record as a row with its event time and rank."""

    def schema(self) -> pa.Schema:
        columns = [*self._record_columns(), pa.field(EVENT, pa.timestamp("us", "UTC")), pa.field(BEAT, pa.bool_())]
        return pa.schema([*columns, pa.field(ORDER, ORDERED)])

    def rows(self, part: Range, records: pa.RecordBatch, events: pa.Array, given: int) -> pa.RecordBatch:  # noqa: ARG002
        from gauss.stream.driver.tasks.event_time_reader import stamped

        return stamped(part, records, events)


class ReadPartials(TimedRead, frozen=True, kw_only=True, tag="partials"):
    """Pre-aggregates records by the `partial` of a transform."""

    transform: TransformRef
    columns: str
    """The columns of partials: an Arrow schema as base64."""
    restored: str = ""
    """Path of an Arrow file with partials that precede the first batch: the state of a lost checkpoint."""

    def schema(self) -> pa.Schema:
        return decode_schema(self.columns)

    def rows(self, part: Range, records: pa.RecordBatch, events: pa.Array, given: int) -> pa.RecordBatch:  # noqa: ARG002
        from gauss.stream.driver.tasks.event_time_reader import partials

        return partials(self.transform, part, records, events)


class ReadBlocks(TimedRead, frozen=True, kw_only=True, tag="blocks"):
    """Returns records in blocks of about the same event time, for a join of two topics."""

    slot_ms: int
    """The duration that a block covers."""

    def schema(self) -> pa.Schema:
        return BLOCKS

    def block_schema(self) -> pa.Schema:
        """The columns of the records in a block."""
        return pa.schema([*self._record_columns(), pa.field(EVENT_MS, pa.int64())])

    def rows(self, part: Range, records: pa.RecordBatch, events: pa.Array, given: int) -> pa.RecordBatch:
        from gauss.stream.driver.tasks.join_blocks import blocks

        return blocks(self, part, records, events, given)


ReadPlan = ReadRecords | ReadTimed | ReadPartials | ReadBlocks
