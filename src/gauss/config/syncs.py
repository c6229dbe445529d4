"""`[[syncs]]`: moves streams from a source to a destination by connectors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from gauss.config.section import Name, Section
from gauss.contracts.connector.settings import CheckpointThresholds
from gauss.contracts.connector.stream import ColumnPolicy, DataErrorPolicy, NullabilityPolicy, TypeChangePolicy
from gauss.contracts.plugin import Bytes, Millis
from gauss.model.units import interval


def _written(value: int | str) -> str:
    return value if isinstance(value, str) else f"{value}ms"


Every = Annotated[int | str, BeforeValidator(interval), PlainSerializer(_written, when_used="json")]
"""A duration in ms, or a cron expression."""

LEAST_BATCH_BYTES, MOST_BATCH_BYTES = 1 << 10, 1 << 30


class ConnectorDef(BaseModel):
    """A connector and its settings, in one table."""

    model_config = ConfigDict(extra="allow", frozen=True)

    connector: str
    """The name of a connector, `module:Class` of a file beside this one, or the path of a `.wasm` file."""

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the connector."""
        return dict(self.model_extra or {})


class TransformDef(Section):
    """What happens to rows between source and destination."""

    sql: str | None = None
    """A Spark SQL query over `input`."""
    program: str | None = None
    """A program of the scan language."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.sql is None) == (self.program is None):
            raise PydanticCustomError("transform", "give sql or program", {"key": "sql"})
        return self


class StreamDef(Section):
    """A stream of a sync."""

    name: str
    """The stream, as the source names it."""
    mode: Literal["full_refresh", "incremental", "cdc"] = "full_refresh"
    """`full_refresh` reads everything, `incremental` what is behind the cursor, `cdc` every change."""
    cursor: str | None = None
    """With `incremental`: the field by which rows are ordered. Sources with positions of their own, such as files, need
    none."""
    write: Literal["append", "replace", "upsert"] | None = None
    """Default: `upsert` if there is a `key`, else `replace` for a full refresh and `append` for others."""
    key: tuple[str, ...] = ()
    """With `upsert`: the fields that identify a row."""
    table: str | None = None
    """The name at the destination. Default: the last part of the stream's name; with `file` the whole name."""
    transform: TransformDef | None = None
    """Changes rows on their way."""

    @property
    def writing(self) -> str:
        """How the destination writes."""
        return self.write or ("upsert" if self.key else "replace" if self.mode == "full_refresh" else "append")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mode == "full_refresh" and self.cursor is not None:
            raise PydanticCustomError("stream", "a full refresh has no cursor: remove it", {"key": "cursor"})
        if self.writing == "upsert" and not self.key:
            raise PydanticCustomError("stream", 'write = "upsert" needs a key', {"key": "key"})
        if self.writing != "upsert" and self.key:
            raise PydanticCustomError("stream", 'a key goes with write = "upsert"', {"key": "key"})
        if self.mode == "cdc" and self.transform is not None and self.transform.sql is not None:
            raise PydanticCustomError(
                "stream", "changes can't go through a query, only through a program", {"key": "transform"}
            )
        if self.write == "replace" and self.mode != "full_refresh":
            raise PydanticCustomError("stream", 'write = "replace" goes with a full refresh', {"key": "write"})
        return self


class LimitsDef(Section):
    """Bounds of every stream."""

    max_batch_bytes: Annotated[Bytes, Field(ge=LEAST_BATCH_BYTES, le=MOST_BATCH_BYTES)] | None = None
    """Maximum bytes of a batch. Default: what the connectors propose."""
    max_record_bytes: Annotated[Bytes, Field(ge=1)] = 4 << 20
    """Maximum bytes of a record; larger ones are data errors."""
    max_inflight_batches: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Batches between source and destination."""
    max_parallel_requests: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Requests that a connector may have under way."""


class EvolutionDef(Section):
    """How a table follows the schema of its stream."""

    new_column: ColumnPolicy = ColumnPolicy.ADD
    """`add` it to the table, `ignore` it, or `fail`."""
    removed_column: Literal["ignore", "fail"] = "ignore"
    """`ignore` leaves the column null, or `fail`."""
    type_change: TypeChangePolicy = TypeChangePolicy.COERCE
    """`coerce` values to the type of the table, write `null`, or `fail`."""
    nullability_change: NullabilityPolicy = NullabilityPolicy.ALLOW
    """`allow` makes the column nullable, or `fail`."""


class PoliciesDef(Section):
    """What happens to rows and schemas that do not fit."""

    on_data_error: DataErrorPolicy = DataErrorPolicy.FAIL
    """Rows that can't be read or written: `skip`, `fail`, or `dlq`, which keeps them as dead letters."""
    schema_evolution: EvolutionDef = EvolutionDef()
    """How a table follows the schema of its stream."""


class SyncDef(Section):
    """`[[syncs]]`: streams that connectors move from a source to a destination."""

    name: Name
    """Its name in commands, state and metrics."""
    source: ConnectorDef
    """`{ connector = "postgres", … }`: the connector and its settings, see [connectors](../connectors.md)."""
    destination: ConnectorDef
    """The same for the destination."""
    streams: Annotated[list[StreamDef], Field(min_length=1)] | Literal["*"] = "*"
    """The streams, or `"*"` for all that the source has, each as a full refresh."""
    every: Every | None = None
    """Under `gauss run`: how often it runs, as a duration (`"5m"`) or a cron expression. Default: only by hand."""
    follow: bool = False
    """Streams of `cdc` go on until the sync is stopped: changes arrive as they happen. Under `gauss run` it starts with
    the run."""
    runs_on: Literal["auto", "local", "spark"] = "auto"
    """`local`: in the process of the sync. `spark`: as a job of Spark. `auto`: on Spark if it has a query, or full
    refreshes of 5,000,000 rows or more as the source estimates them."""
    limits: LimitsDef = LimitsDef()
    """Bounds of every stream."""
    policies: PoliciesDef = PoliciesDef()
    """What happens to rows and schemas that do not fit."""
    checkpoint: CheckpointThresholds = CheckpointThresholds()
    """How much is read again after a crash, at most."""
    max_parallel_streams: Annotated[int, Field(ge=1, le=64)] = 1
    """Streams that run at once."""
    deadline: Annotated[Millis, Field(gt=0)] | None = None
    """The sync fails if it takes longer."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 7
    """Attempts at a stream whose errors are retryable, in a row without progress. The default bridges the restart of a
    server that takes a minute."""
    state: str | None = None
    """A Postgres URL for cursors and connector state, shared by several machines. Default: a file in the data
    directory."""

    @property
    def tables(self) -> dict[str, str]:
        """The names of streams at the destination, as far as the config gives them."""
        given = self.destination.config.get("tables")
        named = [] if self.streams == "*" else self.streams
        renamed = {each.name: each.table for each in named if each.table}
        return {**given, **renamed} if isinstance(given, dict) else renamed

    @property
    def queried(self) -> str:
        """The stream whose transform only Spark can run; empty if there is none."""
        streams = () if self.streams == "*" else self.streams
        return next((each.name for each in streams if each.transform and each.transform.sql is not None), "")

    @property
    def wants_spark(self) -> bool:
        """Whether it runs on Spark at any size."""
        return self.runs_on == "spark" or bool(self.queried)

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if self.runs_on == "local" and self.queried:
            raise PydanticCustomError(
                "sync",
                'the query of stream "{stream}" runs on Spark only: remove runs_on = "local"',
                {"key": "runs_on", "stream": self.queried},
            )
        return self

    @model_validator(mode="after")
    def _follows(self) -> Self:
        others = self.streams == "*" or any(each.mode != "cdc" for each in self.streams)
        if self.follow and others:
            raise PydanticCustomError("sync", "follow is for streams of mode cdc only", {"key": "follow"})
        if self.follow and self.every is not None:
            raise PydanticCustomError("sync", "a sync that follows has no `every`: it never ends", {"key": "every"})
        if self.follow and self.deadline is not None:
            raise PydanticCustomError("sync", "a sync that follows has no deadline", {"key": "deadline"})
        return self
