"""What a query's readers and writers are told: plain data in Spark's options, never the token.

Every process between the driver and a task imports this module: what is heavy (pydantic, the registry) is loaded
where it is used.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.model.closing import scope
from gauss.stream.protocol import Ends, Timing

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline, ProcessorDef
    from gauss.contracts.format import SourceField
    from gauss.contracts.format_guard import GuardedFormat
    from gauss.contracts.processor import Transform

BLOCK_ROWS = 65_536
"""Ranges are cut at multiples of this, whatever the number of cores, so that a replay makes the same blocks."""

STATEFUL_MS = 1000
"""The least time at which batches with state aim."""

ORDERED = pa.struct([("source", pa.int32()), ("inc", pa.int64()), ("part", pa.int32()), ("off", pa.int64())])
"""A record's place among others of the same event time."""
EVENT, BEAT, ORDER = "_event", "_beat", "_order"  # as contracts/time.py has them, which is too heavy to load here
MARK = "gauss"
"""The key of a column's metadata that says that it holds any value as its JSON text."""
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
"""Records of about the same time as one row: when the first and the last happened, a name, and all of them."""


class FormatRef(msgspec.Struct, frozen=True):
    """A format by plugin and config, as every worker builds it for itself."""

    plugin: str
    config: dict[str, Any] = {}
    projects: bool = False
    """Set for a named output format: its schema, if it has one, says which columns are written."""

    def build(self) -> GuardedFormat:
        from gauss.contracts.format import FormatSpec
        from gauss.contracts.format_batch import batched
        from gauss.registry import build, spec

        found = spec(FormatSpec, self.plugin)
        return batched(build(found, found.validate(self.config)))


class TableRef(msgspec.Struct, frozen=True):
    """A table in which a transform looks rows up."""

    topic: str
    format: FormatRef
    key: str
    """The field that is its key."""


class BesideRef(msgspec.Struct, frozen=True):
    """A topic that a transform reads beside its source."""

    topic: str
    format: FormatRef


class TransformRef(msgspec.Struct, frozen=True):
    """A processor's transform by plugin and config, with the formats that its config names."""

    plugin: str
    config: dict[str, Any] = {}
    input: FormatRef | None = None
    output: FormatRef | None = None
    table: TableRef | None = None
    beside: BesideRef | None = None

    def build(self) -> tuple[Transform, list[SourceField]]:
        """The transform, bound to its formats, and the fields it needs; raises ConfigError."""
        from gauss.contracts.processor import ProcessorSpec
        from gauss.registry import build, spec

        found = spec(ProcessorSpec, self.plugin)
        made: Transform = build(found, found.validate(self.config))
        with scope():  # of the formats only the schemas are wanted here
            if self.table is not None:
                made.bind_table(self.table.format.build().schema(), self.table.key)  # type: ignore[attr-defined]
            if self.beside is not None:
                made.bind_beside(self.beside.format.build().schema())  # type: ignore[attr-defined]
            schemas = [ref.build().schema() if ref else None for ref in (self.input, self.output)]
        fields = made.bind(*schemas)
        if (time := getattr(made, "time", None)) is not None and time.field:
            from gauss.contracts.time_field import with_event_time

            fields = with_event_time(fields, time.field, schemas[0])
        return made, fields


class FieldRef(msgspec.Struct, frozen=True):
    """A decoded field and its type."""

    name: str
    type: str
    attrs: dict[str, Any] = {}

    def arrow(self) -> pa.Field:
        from gauss.contracts.field_types import arrow_type
        from gauss.contracts.format import FieldType

        # A value of any kind travels as its JSON text; the mark tells the codec so.
        any_kind = "json" in (self.type, self.attrs.get("element"))
        mark = {b"gauss": b"json" if self.type == "json" else b"json array"} if any_kind else None
        return pa.field(self.name, arrow_type(FieldType(self.type, self.attrs)), metadata=mark)


class TimePlan(msgspec.Struct, frozen=True):
    """How a reader goes by time: it tells late records from the others, and may aggregate the others beforehand."""

    field: str
    """The decoded column with the event time, empty: the records' own."""
    timing: Timing
    late_letters: bool = False
    """Whether late records become dead letters too."""
    required: list[str] = []
    """Columns without which a record becomes a dead letter."""
    partial: TransformRef | None = None
    """Whose `partial` the reader applies."""
    columns: str = ""
    """What that gives: an Arrow schema as base64."""
    restored: str = ""
    """Path of an Arrow file with partials that come before the first batch: the state that a lost checkpoint had."""
    blocks_ms: int = 0
    """Not 0: records are given in blocks, each of one slot of so many ms."""


class ReadPlan(msgspec.Struct, frozen=True):
    """Everything a reader needs."""

    flight: str
    """Path of the file with the engine's address and token."""
    processor: str
    generation: int
    start: Ends
    read: str = "offset"
    format: FormatRef | None = None
    fields: str = ""
    """What is decoded: an Arrow schema as base64."""
    keep_data: bool = True
    """Whether the record's bytes go along as `_data`."""
    tasks: int = 0
    """Into how many tasks a batch's ranges are put together; 0: each is a task."""
    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20
    target_ms: int = 200
    member: str = ""
    """Of a chain: who in it takes the records."""
    time: TimePlan | None = None

    def decoded(self) -> pa.Schema:
        return decode_schema(self.fields)

    def schema(self) -> pa.Schema:
        """Columns that the reader gives: the fields, the record's time and, if asked for, its bytes."""
        if self.time is not None and self.time.partial is not None:
            return decode_schema(self.time.columns)
        if self.time is not None and self.time.blocks_ms:
            return BLOCKS
        columns = [*self.decoded(), pa.field("_ts_ms", pa.int64())]
        if self.keep_data:
            columns.append(pa.field("_data", pa.binary()))
        if self.time is not None:
            columns += [pa.field(EVENT, pa.timestamp("us", "UTC")), pa.field(BEAT, pa.bool_())]
            columns.append(pa.field(ORDER, ORDERED))
        return pa.schema(columns)

    def block_schema(self) -> pa.Schema:
        """What a block holds of its records."""
        hidden = ["_ts_ms", *(["_data"] if self.keep_data else [])]
        kinds = [pa.int64(), pa.binary()]
        columns = [*self.decoded(), *(pa.field(name, kind) for name, kind in zip(hidden, kinds, strict=False))]
        return pa.schema([*columns, pa.field("_event_ms", pa.int64())])


class Work(msgspec.Struct, frozen=True):
    """What a hosted task does with each range: read and decode it by one plan, transform it, then encode and stage."""

    read: ReadPlan
    transform: TransformRef


class PairWork(msgspec.Struct, frozen=True):
    """What a writer's task does with blocks of two topics that lie near each other: it finds the pairs in them."""

    left: ReadPlan
    right: ReadPlan
    transform: TransformRef


class Step(msgspec.Struct, frozen=True):
    """A processor behind a chain's head: what a task does with records as soon as they are made."""

    name: str
    topic: str
    """Where its records come from: what a step before it writes."""
    work: Work
    target: str
    format: FormatRef | None = None
    routes: list[str] = []

    @property
    def targets(self) -> list[str]:
        return self.routes or [self.target]


class ChainPlan(msgspec.Struct, frozen=True):
    """A head and everybody behind it, each after the one that feeds it."""

    head: Step
    steps: list[Step] = []

    @property
    def name(self) -> str:
        return self.head.name

    def without(self, names: set[str]) -> ChainPlan:
        """The same without some of those behind the head, and without whoever they feed."""
        left: list[Step] = []
        fed = set(self.head.targets)
        for step in self.steps:
            if step.name not in names and step.topic in fed:
                left.append(step)
                fed |= set(step.targets)
        return ChainPlan(self.head, left)


class Sizes(msgspec.Struct, frozen=True):
    """How large epochs may be, and how long they should take."""

    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20
    target_ms: int = 200
    min_rows: int = 0
    """Fewer records wait for more of them, but no longer than `flush_ms`."""
    flush_ms: int = 0


class HostedPlan(msgspec.Struct, frozen=True, tag="hosted"):
    """What a standing task does for chains that read the same topic in the same format."""

    flight: str
    job: int
    sizes: Sizes
    chains: list[ChainPlan]


class TableWork(msgspec.Struct, frozen=True):
    """How a table is filled; the rest is in the run's own config, since that may hold secrets."""

    data_dir: str
    topic: str
    lacking: list[str]
    """Columns of the schema that the table does not have."""
    settle_s: float
    """How long an insert of a process that is gone may still be under way at the server."""


class TablePlan(msgspec.Struct, frozen=True, tag="table"):
    """What a standing task does that empties a table's inbox."""

    flight: str
    job: int
    sizes: Sizes
    processor: str
    work: TableWork


StandingPlan = HostedPlan | TablePlan


class StateRef(msgspec.Struct, frozen=True):
    """The topic in which a query keeps its state too."""

    topic: str
    format: FormatRef


class WritePlan(msgspec.Struct, frozen=True):
    """Everything a writer needs."""

    flight: str
    processor: str
    generation: int
    checkpoint: str
    """Its identity at the engine."""
    checkpoint_dir: str
    """Where Spark's offset log lies."""
    target: str
    format: FormatRef | None = None
    routes: list[str] = []
    """The targets when there are several, and no `target`: each row names its own."""
    state: StateRef | None = None
    """Set when the query keeps its state in a topic too."""
    pairs: PairWork | None = None
    """Set when what comes are blocks of two topics."""
    by_time: bool = False
    """Whether a task's rows are put into the order of their times: Spark gives closed windows in none."""
    marks: dict[str, str] = {}
    """Columns of Spark's that hold any value as its JSON text, with their marks: Arrow batches of Spark's have none."""


def encode_fields(fields: list[FieldRef]) -> str:
    """The `fields` of a ReadPlan."""
    return encode_schema(pa.schema([field.arrow() for field in fields]))


def encode_schema(schema: pa.Schema) -> str:
    """An Arrow schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def decode_schema(text: str) -> pa.Schema:
    """An Arrow schema from its text; an empty one has no columns."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else pa.schema([])


def to_option(plan: ReadPlan | WritePlan) -> str:
    return msgspec.json.encode(plan).decode()


def format_ref(pipeline: Pipeline, name: str | None) -> FormatRef | None:
    """A format of `[[formats]]`, or a format plugin by its own name."""
    if name is None:
        return None
    defined = pipeline.format(name)
    return FormatRef(defined.plugin, defined.config) if defined else FormatRef(name)


def table_ref(pipeline: Pipeline, processor: ProcessorDef) -> TableRef | None:
    """The table in which a processor looks rows up, if it does."""
    from gauss.config.topics import tables_of
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    found = spec(ProcessorSpec, processor.plugin)
    for _, name in tables_of(found, found.validate(processor.config)):
        config = pipeline.topic(name).storage_config
        format_ = format_ref(pipeline, config["format"])
        assert format_ is not None
        return TableRef(name, format_, config["key_field"])
    return None


def beside_ref(pipeline: Pipeline, processor: ProcessorDef) -> BesideRef | None:
    """The topic that a processor reads beside its source, if it does."""
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    found = spec(ProcessorSpec, processor.plugin)
    for _, topic in found.beside(found.validate(processor.config)) if found.beside is not None else ():
        given = processor.config.get("join_input") or processor.config.get("input") or {}
        format_ = format_ref(pipeline, given.get("format"))
        assert format_ is not None
        return BesideRef(topic, format_)
    return None


def transform_ref(pipeline: Pipeline, processor: ProcessorDef) -> TransformRef:
    """A processor's transform with its formats: those that its config names, or its own."""
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    found = spec(ProcessorSpec, processor.plugin)
    own = found.codecs(found.validate(processor.config)) if found.codecs else {}
    read, written = (
        FormatRef(*own[side]) if side in own else format_ref(pipeline, (processor.config.get(side) or {}).get("format"))
        for side in ("input", "output")
    )
    others = table_ref(pipeline, processor), beside_ref(pipeline, processor)
    return TransformRef(processor.plugin, processor.config, read, written, *others)
