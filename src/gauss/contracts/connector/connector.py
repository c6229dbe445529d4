"""What a host calls: the lifecycle of sources and destinations, and what those in Python can do beyond protocol v1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.connector.cursor import CursorValue
    from gauss.contracts.connector.lifecycle import Catalog, ConfigBlob, OpenContext, OpenInfo, ValidationResult
    from gauss.contracts.connector.progress import ReadSummary, WriteSummary
    from gauss.contracts.connector.stream import StreamContext


NULL_BECOMES = b"gauss.null_becomes"
"""Metadata of a field of `ManagedDestination.landed`: what a null is stored as, if the column has none."""


NEEDS_VALUE = {b"gauss.needs_value": b"true"}
"""Metadata of a column of a table that every row must have a value for: it may not be null and has no default."""


def partition_key(partition: Any) -> str:
    """The name of a partition in watermarks; empty for the whole stream."""
    return "" if partition is None else json.dumps(partition, sort_keys=True, separators=(",", ":"))


class Connector(Protocol):
    """Opened once, used for one stream, closed once. Constructed with a `Host`."""

    def open(self, context: OpenContext) -> OpenInfo: ...

    def validate(self, config: ConfigBlob) -> ValidationResult:
        """Checks that the config works, after `open`."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...


class Source(Connector, Protocol):
    def discover(self) -> Catalog: ...

    def run_read(self, stream: StreamContext) -> ReadSummary:
        """Emits the stream in batches, with checkpoints."""
        ...


class Destination(Connector, Protocol):
    def run_write(self, stream: StreamContext) -> WriteSummary:
        """Writes batches until there are no more, with a checkpoint after each commit."""
        ...


@runtime_checkable
class SchemaSource(Protocol):
    """A source that knows more of a stream's columns than the catalog says, such as their types in its own system."""

    def stream_schema(self, stream: StreamContext) -> pa.Schema:
        """The Arrow schema of the stream's batches, with metadata."""
        ...


@runtime_checkable
class PartitionedSource(Protocol):
    """A source whose streams can be read in parts, by several instances at once."""

    def partitions(self, stream: StreamContext, count: int) -> list[Any]:
        """Up to about `count` parts of the stream as JSON, consistent with each other until this instance is closed.
        One part: it can't be divided."""
        ...


@runtime_checkable
class OpaqueSource(Protocol):
    """A source that can emit `Opaque` batches."""

    def opaque_kind(self, stream: StreamContext) -> str:
        """The encoding of this stream with its column types; empty if it has none."""
        ...


class Watermark(NamedTuple):
    """What a destination has committed of a stream, stored in the transaction of the data."""

    generation: int
    """Of the run that wrote it; a run with a smaller one is refused."""
    id: int
    """The last batch, in the numbers of that run."""
    cursor: CursorValue | None
    done: bool
    """Whether the stream, or its partition, is complete."""


@runtime_checkable
class ManagedDestination(Protocol):
    """A destination whose tables the host creates and changes, and that commits its watermark with the data.

    Order of calls: `describe`, `prepare` by one instance; `run_write` by an instance per partition; `finish` by one.
    """

    def landed(self, schema: pa.Schema) -> pa.Schema:
        """The columns of a table that is made for rows of a schema, as `describe` would return them."""
        ...

    def describe(self, stream: StreamContext) -> pa.Schema | None:
        """The columns of the target table as Arrow types; None if there is no table. The metadata of a column that
        can't be left out of a row has `NEEDS_VALUE`."""
        ...

    def statements(self, stream: StreamContext, live: pa.Schema | None, wanted: pa.Schema) -> list[str]:
        """The DDL that makes the target table from its columns, for display and for `prepare`."""
        ...

    def prepare(self, stream: StreamContext, statements: list[str], generation: int) -> None:
        """Runs the statements and fences runs of smaller generations."""
        ...

    def watermark(self, stream: StreamContext, partition: str) -> Watermark | None:
        """What is committed; None if nothing is."""
        ...

    def opaque_kind(self, stream: StreamContext, wanted: pa.Schema) -> str:
        """The encoding of `Opaque` batches that the table takes; empty if it takes none."""
        ...

    def finish(self, stream: StreamContext, generation: int) -> None:
        """Makes what all partitions have written visible, if it is not yet. Idempotent."""
        ...
