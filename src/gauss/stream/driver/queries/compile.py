"""Compiles a processor to a DataFrame: readers that decode, the transform's columns, writers that encode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from gauss.clients.engine.positions import Timing
from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.processor import Partials, ProcessorSpec
from gauss.contracts.time import KeptTransform, PartialTransform
from gauss.contracts.transform import AnyTransform, Traits, Transform
from gauss.model.closing import scope
from gauss.model.errors import ConfigError
from gauss.model.names import (
    BEAT,
    DATA_COLUMN,
    EVENT,
    REST,
    TOPIC_COLUMN,
    TS_MS_COLUMN,
)
from gauss.registry import spec
from gauss.stream.driver.planning.format_fit import can_carry, can_write
from gauss.stream.driver.planning.reads import QueryRead, ReadPartials, ReadRecords, ReadTimed, TimedRead, TimePlan
from gauss.stream.driver.planning.refs import (
    MARK,
    FieldRef,
    FormatRef,
    StateRef,
    TransformRef,
    encode_schema,
    format_ref,
    transform_ref,
)
from gauss.stream.driver.planning.writes import QueryWrite, TaskWrite, WriteRows, WriteState, WriteWindows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


Write = TypeVar("Write", bound=QueryWrite)


@dataclass(frozen=True)
class Design:
    """A processor's transform bound to its formats, independent of its checkpoint."""

    processor: ProcessorDef
    spec: ProcessorSpec
    ref: TransformRef
    """How a task builds the transform."""
    transform: AnyTransform
    traits: Traits
    output: FormatRef | None
    state: StateRef | None = None
    """The topic to which it also writes its state."""

    @property
    def input(self) -> FormatRef | None:
        return self.ref.input

    @property
    def stateful(self) -> bool:
        """Whether its plugin declares state; if it declares nothing, `state_plan.py` derives it from Spark's plan."""
        return bool(self.spec.stateful)

    @property
    def runs(self) -> str:
        """`hosted`: in standing tasks; `columns`: by Spark, between a reader that decodes and a writer that encodes;
        `partials`: pre-aggregated in the readers, merged by Spark."""
        if self.spec.hosted:
            return "hosted"
        return "columns" if self.spec.partials is Partials.NONE else "partials"

    @property
    def undecided(self) -> list[str]:
        """Fields whose type is determined from a sample of records."""
        return [field.name for field in self.traits.fields if field.field_type.name == "auto"]

    def decided(self, kinds: dict[str, FieldRef]) -> list[FieldRef]:
        """Every field with its type."""
        found = []
        for field in self.traits.fields:
            kind = field.field_type
            auto = kind.name == "auto"
            found.append(kinds[field.name] if auto else FieldRef(field.name, kind.name, kind.attrs, field.beside))
        return found

    def with_fields(self, names: Iterable[str]) -> Design:
        """The design that also decodes the fields by which records that it passes on unchanged are written."""
        known = {field.name for field in self.traits.fields}
        missing = [name for name in dict.fromkeys(names) if name and name not in known]
        if not missing or not self.spec.passes_bytes or self.input is None:
            return self
        with scope():
            schema = self.input.build().schema()
        kinds = {field.name.removeprefix("$."): field.field_type for field in schema.fields} if schema else {}
        more = [SourceField(name, kinds.get(name, FieldType("auto"))) for name in missing]
        return replace(self, traits=replace(self.traits, fields=[*self.traits.fields, *more]))


def design(pipeline: Pipeline, processor: ProcessorDef) -> Design:
    """Builds the transform of a processor and checks its formats; raises ConfigError."""
    found = spec(ProcessorSpec, processor.plugin)
    ref = transform_ref(pipeline, processor)
    read, written = ref.input, ref.output
    transform, traits = ref.build()
    if traits.carries:
        can_carry(processor, read, written)
    if traits.columns is not None:
        can_write(processor.name, traits.columns, read, written)
    kept = found.state(found.validate(processor.config)) if found.state is not None else None
    state_format = format_ref(pipeline, processor.config.get("state_format")) or FormatRef("json")
    state = StateRef(kept, state_format) if kept is not None else None
    output = msgspec.structs.replace(written, projects=True) if written is not None else read
    return Design(processor, found, ref, transform, traits, output, state)


def result(session: SparkSession, plan: QueryRead, transform: Transform, records: DataFrame | None = None) -> DataFrame:
    """The transform's result for a topic's records, or for the given ones: either `_data` or columns to encode."""
    if records is None:
        records = session.readStream.format("gauss").option("plan", plan.option()).load()
    if plan.timing is not None:
        records = records.withWatermark(EVENT, f"{plan.timing.watermark_ms} milliseconds")
    if isinstance(plan, ReadPartials):
        return _has_columns(transform.apply(records), plan)
    if "ts_ms" not in records.columns:  # a field of that name in the format takes precedence
        records = records.withColumn("ts_ms", F.col(TS_MS_COLUMN))
    made = transform.apply(nested(records, plan.decoded().names))
    if DATA_COLUMN in made.columns:
        return made.select(*(name for name in (TS_MS_COLUMN, DATA_COLUMN, TOPIC_COLUMN, BEAT) if name in made.columns))
    return _has_columns(made, plan)


def _has_columns(made: DataFrame, plan: QueryRead) -> DataFrame:
    if set(made.columns) <= {TS_MS_COLUMN, BEAT}:
        raise ConfigError(f'the result of processor "{plan.processor}" has no columns to write')
    if twice := [name for name in dict.fromkeys(made.columns) if made.columns.count(name) > 1]:
        raise ConfigError(
            f"the result has more than one column {', '.join(twice)}",
            hint="select each once (SELECT * includes all fields and ts_ms), or rename it with AS",
        )
    return made


def by_time(read: ReadRecords, design: Design, fields: list[FieldRef], restored: Path) -> QueryRead:
    """The read by event time if the transform uses it, else `read` itself. `restored`: path of the partials of a lost
    checkpoint, which may not exist."""
    time = time_plan(design, fields)
    if time is None:
        return read
    given = msgspec.structs.asdict(read)
    if design.spec.partials is Partials.NONE:
        return ReadTimed(**given, time=time)
    columns = cast("PartialTransform", design.transform).partial_schema(pa.schema([field.arrow() for field in fields]))
    path = str(restored) if restored.exists() else ""
    return ReadPartials(**given, time=time, transform=design.ref, columns=encode_schema(columns), restored=path)


def time_plan(design: Design, fields: list[FieldRef]) -> TimePlan | None:
    """How the readers of a transform determine event times; None if it does not use them."""
    time = design.traits.time
    if time is None:
        return None
    names = {field.name.removeprefix("$."): field.name for field in fields}
    arrival = not time.field
    return TimePlan(
        names[time.field] if time.field else "",
        Timing(time.watermark_ms, time.span_ms, time.step_ms, arrival, time.idle_ms),
        late_letters=time.late == "dead_letter",
        required=[names[name] for name in time.required],
    )


def passes_bytes(session: SparkSession, plan: QueryRead, transform: Transform) -> bool:
    """Whether the result contains the records' bytes, which are read only if needed. Tested on an empty frame."""
    empty: list[Any] = []
    nothing = session.createDataFrame(empty, from_arrow_schema(msgspec.structs.replace(plan, keep_data=True).schema()))
    return not {DATA_COLUMN, REST}.isdisjoint(result(session, plan, transform, nothing).columns)


def start(session: SparkSession, read: QueryRead, write: WriteRows, design: Design) -> Any:
    """Starts the streaming query."""
    read = msgspec.structs.replace(read, tasks=session.sparkContext.defaultParallelism)
    if design.ref.beside is not None:
        from gauss.stream.driver.queries.two_sided import both_sides

        assert isinstance(read, ReadTimed)
        frame, paired = both_sides(session, read, write, design)
        return run(session, frame, _marked(paired, frame))
    transform = cast("Transform", design.transform)  # hosted transforms do not run as queries
    if not isinstance(read, ReadPartials):
        read = msgspec.structs.replace(read, keep_data=passes_bytes(session, read, transform))
    frame = result(session, read, transform)
    given = msgspec.structs.asdict(write)
    if design.state is not None:
        from gauss.stream.driver.queries.state_topic import start_kept

        assert isinstance(read, TimedRead)
        kept = _marked(WriteState(**given, state=design.state), frame)
        return start_kept(frame, cast("KeptTransform", design.transform), read, kept)
    if {DATA_COLUMN, REST}.isdisjoint(frame.columns):
        can_write(design.processor.name, frame.columns, design.input, design.ref.output)
    if design.spec.partials is Partials.GROUPS:
        return run(session, frame, _marked(WriteWindows(**given), frame))
    return run(session, frame, _marked(write, frame))


def _marked(write: Write, frame: DataFrame) -> Write:
    """The write plan with the marks of columns that hold values of any type."""
    marks = {each.name: mark for each in frame.schema if (mark := each.metadata.get(MARK))}
    return msgspec.structs.replace(write, marks=marks)


def run(session: SparkSession, frame: DataFrame, write: TaskWrite) -> Any:
    """Starts a streaming query that writes a frame."""
    # Spark looks up a Python sink in the session that is active on this JVM thread.
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    return (
        frame.writeStream.format("gauss")
        .queryName(write.processor)
        .option("plan", write.option())
        .option("checkpointLocation", write.checkpoint_dir)
        .start()
    )


def nested(records: DataFrame, fields: list[str]) -> DataFrame:
    """Turns paths into nested columns: `$.order.id` becomes `order.id`; a spread array keeps its path as name."""
    paths = [name for name in fields if name.startswith("$.") and "[*]" not in name]
    if not paths:
        return records
    tree: dict[str, Any] = {}
    for name in paths:
        node = tree
        *way, last = name[2:].split(".")
        for part in way:
            node = node.setdefault(part, {})
        node[last] = F.col(f"`{name}`")
    others = [F.col(f"`{name}`") for name in records.columns if name not in paths]
    return records.select(*(_column(node).alias(name) for name, node in tree.items()), *others)


def _column(node: Any) -> Column:
    if not isinstance(node, dict):
        column: Column = node
        return column
    return F.struct(*(_column(child).alias(name) for name, child in node.items()))
