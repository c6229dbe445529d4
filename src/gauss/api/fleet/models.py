"""Bodies of requests and answers, in camelCase."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gauss.fleet.store.pipelines import MOST_REPLICAS
from gauss.fleet.store.workers import Mode

MOST_LETTER_BYTES = 1 << 20
Number = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Description = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]


class Body(BaseModel):
    """A body; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class NewPipeline(Body):
    name: Name
    description: Description = ""


class PipelineChange(Body):
    name: Name
    description: Description = ""
    alert_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    """Status warns when a larger share of recent records became dead letters. Left out: as it was."""


class PipelineShown(Body):
    id: str
    name: str
    description: str
    version: int
    """The newest version of its configs."""
    desired: Literal["started", "stopped"]
    replicas: int
    created_at: int
    """Unix milliseconds, as all times."""
    updated_at: int
    alert_ratio: float
    is_file: bool
    """Whether it is a whole file of Gauss."""


class State(Body):
    desired: Literal["started", "stopped"]
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


class StateChange(Body):
    desired: Literal["started", "stopped"] | None = None
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = None


class StatusShown(Body):
    desired: str
    observed: str
    reason: str
    rows: int
    batches: int
    dead_letters: int
    lag: int
    """Messages that are not yet committed."""
    lag_seconds: float
    """The age of the oldest of them."""
    dead_ratio: float
    """The share of recent records that became dead letters."""
    alert: str
    """Empty, or what somebody should look at."""
    letters_kept: int
    """Dead letters that can be replayed."""
    letters_dropped: int
    """Dead letters that came while there was no room for more: they are counted alone."""
    letters_expired: int
    """Dead letters that were removed because they were old."""


class AssignmentShown(Body):
    slot: int
    worker_id: str
    lease_until: int
    epoch: int
    state: str
    reason: str


class ClaimBody(Body):
    worker_id: str
    slot: int | None
    topic: str
    partition: int
    epoch: int
    next_offset: int
    lag: int
    lag_seconds: float
    pending_to: int | None
    """The end of the range that is being inserted."""
    pending_version: int | None
    """The version of the config that it is inserted with."""


class WorkerSlot(Body):
    pipeline_id: str
    pipeline: str
    slot: int
    epoch: int


class WorkerShown(Body):
    id: str
    host: str
    pid: int
    mode: Mode
    seen_at: int
    live: bool
    slots: list[WorkerSlot]


class LetterExcerpt(Body):
    """A dead letter in a list."""

    inc: int
    topic: str
    partition: int
    offset: int
    stage: str
    reason: str
    column: str
    detail: str
    text: str | None
    """The beginning of the record as text; null for a tombstone."""
    size: int
    """Bytes of the record."""
    ts_ms: int
    at: int
    edited: str | None
    """The beginning of what is replayed instead, as text."""
    edited_by: str | None


class LetterShown(LetterExcerpt):
    """A dead letter with its whole record."""

    base64: str | None
    """The record as it was."""


class TakeoverShown(Body):
    """A slot in the hands of one worker."""

    slot: int
    epoch: int
    worker_id: str
    began_at: int
    ended_at: int | None
    """When the slot was released or the lease ended; null if it is held."""


class LetterPlace(Body):
    inc: Number
    offset: Number


class LetterEdit(Body):
    """The record that is replayed: `text`, or any bytes as `base64`; neither: as it was."""

    text: Annotated[str, Field(max_length=MOST_LETTER_BYTES)] | None = None
    base64: Annotated[str, Field(max_length=MOST_LETTER_BYTES * 4 // 3 + 4)] | None = None


class ReplayedShown(Body):
    inc: int
    offset: int
    outcome: Literal["replayed", "filtered", "refused", "gone"]
    reason: str


class VersionShown(Body):
    version: int
    kinds: list[str]
    who: str
    note: str
    at: int


class DifferenceShown(Body):
    path: str
    before: Any
    after: Any


class AuditShown(Body):
    id: int
    at: int
    who: str
    action: str
    pipeline_id: str | None
    detail: dict[str, Any]


class NewToken(Body):
    name: Name
    role: Literal["viewer", "operator", "admin"]


class TokenShown(Body):
    id: str
    name: str
    role: Literal["viewer", "operator", "admin"]
    created_by: str
    created_at: int
    used_at: int | None


class TokenMade(TokenShown):
    token: str
    """Shown only once."""


class Validation(Body):
    ok: bool
    message: str
    hint: str = ""


class TopicValidation(Validation):
    partitions: int = 0


class TableDifference(Body):
    change: str
    name: str
    wanted: str
    live: str
    statement: str


class TableValidation(Validation):
    exists: bool = False
    ddl: str = ""
    """The CREATE TABLE statement of the mapping."""
    differences: list[TableDifference] = []
    guarantee: str = ""
    """`exactly once` or `at least once`, with the reason."""


class TableQuestion(Body):
    table: Annotated[str, Field(max_length=200)] = ""
    """Default: that of the config."""
    columns: list[dict[str, Any]] | None = None
    """Columns as in a mapping. Default: those of the mapping."""
    create: bool = False
    """Whether a missing table is made, and missing columns are added."""


class FilterQuestion(Body):
    expression: Annotated[str, Field(max_length=16_384)]
    sample: Any
    """A record as an object, or as text."""


class FilterAnswer(Body):
    result: bool
    error: str | None = None


class InferredColumn(Body):
    field_path: str
    column: str
    type: str
    nullable: bool
    encoding: str | None


class PreviewFault(Body):
    stage: str
    reason: str
    column: str
    detail: str


class PreviewShown(Body):
    partition: int
    offset: int
    raw: str | None
    kept: bool | None
    """Whether the filter keeps the record; null without a filter, and for a record that it can't judge."""
    mapped: dict[str, Any] | None
    error: PreviewFault | None


class LiveColumnShown(Body):
    name: str
    type: str
    default: str


class Version(Body):
    version: int


class Health(Body):
    status: str
