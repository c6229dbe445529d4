"""The host object of connectors in Python. A Wasm module reaches the same host through `rb_host_*` functions."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gauss.contracts.connector.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.connector.cursor import CursorValue
    from gauss.contracts.connector.progress import Checkpoint, Metric, StateScope
    from gauss.contracts.connector.stream import StreamContext

KEY_BYTES = 1_024
"""Maximum length of a state key."""
STATE_BYTES = 16 << 20
"""Maximum size of a state value."""
BATCH_OVERHEAD_BYTES = 64 << 10
"""What a batch may have beyond `max_batch_bytes`, for its IPC envelope."""


class LogLevel(IntEnum):
    ERROR = 0
    WARN = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4


class Opaque(NamedTuple):
    """Rows in an encoding that only the two connectors know, such as Postgres' binary COPY."""

    kind: str
    """The encoding with its column types: source and destination use it only if theirs are equal."""
    payload: bytes
    rows: int


class Batch(NamedTuple):
    """Rows on their way, numbered from 1 in each run of a stream."""

    id: int
    rows: pa.RecordBatch | Opaque


class Mark(NamedTuple):
    """A checkpoint of the source behind batch `id`. A destination that commits exactly here, and stores the mark in the
    same transaction, delivers exactly once."""

    id: int
    cursor: CursorValue | None
    final: bool
    """Whether it is the last of the stream."""


class Host(Protocol):
    """What a connector calls while it reads or writes one stream. Failures are raised as ConnectorError. Used by the
    thread that runs the connector; `log` and `metric` by any."""

    @property
    def stream(self) -> StreamContext:
        """The stream of this run; its name is empty while a connector is only checked or asked for its catalog."""
        ...

    @property
    def pipeline(self) -> str:
        """The name of the sync."""
        ...

    @property
    def generation(self) -> int:
        """The number of the run. A destination stores it with its watermark and refuses runs of smaller ones."""
        ...

    @property
    def partition(self) -> Any:
        """The part of the stream to read, as JSON: one of those that the source's `partitions` returned. None: all."""
        ...

    @property
    def opaque(self) -> str:
        """The encoding of `Opaque` batches that source and destination agreed on. Empty: Arrow batches."""
        ...

    @property
    def follow(self) -> bool:
        """Whether a CDC source goes on when it has read everything, until `cancelled`."""
        ...

    @property
    def committed(self) -> CursorValue | None:
        """The cursor of this run's last checkpoint that the destination has committed, so that a source may give up
        what is before it. None before the first."""
        ...

    def cancelled(self) -> bool:
        """Whether the run is to end: emit what is complete and return. Calls that wait raise then."""
        ...

    def emit_batch(self, batch: pa.RecordBatch | bytes | Opaque) -> None:
        """Passes rows to the destination; `bytes` are an Arrow IPC stream with one batch. Waits while
        `max_inflight_batches` are on their way. Refuses an empty batch, and one above `max_batch_bytes`."""
        ...

    def next_batch(self) -> pa.RecordBatch | Opaque | None:
        """The next rows; None after the last."""
        ...

    def next_delivery(self) -> Batch | Mark | None:
        """The next rows or checkpoint of the source; None after the last."""
        ...

    def state_get(self, scope: StateScope, key: str) -> bytes | None:
        """A stored value. Keys have at most KEY_BYTES; `stream` is always the current stream."""
        ...

    def state_put(self, scope: StateScope, key: str, value: bytes) -> None:
        """Stores a value of at most STATE_BYTES."""
        ...

    def state_compare_and_set(self, scope: StateScope, key: str, expected: bytes | None, value: bytes) -> bool:
        """Stores a value if the stored one is `expected` (None: absent); returns whether it was."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """A source's behind what it has emitted; a destination's after its commit."""
        ...

    def reject(self, rows: pa.RecordBatch, error: ConnectorError) -> None:
        """Rows that can't be read or written: skipped, written to the dead letters, or raised, as `on_data_error`
        says."""
        ...

    def log(self, level: LogLevel, message: str) -> None: ...

    def metric(self, metric: Metric) -> None: ...

    def report_progress(self, records: int, size: int) -> None:
        """Running totals of this run."""
        ...


def checked_key(key: str) -> str:
    """A key of state; raises ConnectorError if it is too long or empty."""
    if not 0 < len(key.encode(errors="surrogatepass")) <= KEY_BYTES:
        raise ConnectorError.config(
            "BAD_KEY", f"a state key has 1 to {KEY_BYTES:,} bytes, found {len(key.encode(errors='surrogatepass')):,}"
        )
    return key


def checked_value(value: bytes) -> bytes:
    """A value of state; raises ConnectorError if it is too large."""
    if len(value) > STATE_BYTES:
        raise ConnectorError.config("STATE_TOO_LARGE", f"a state value has at most 16 MiB, found {len(value):,} bytes")
    return value
