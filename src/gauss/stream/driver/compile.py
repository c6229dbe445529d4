"""A processor → a DataFrame: readers that decode, the transform's columns, writers that encode."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.format import SourceField
from gauss.contracts.processor import REST, TOPIC, ProcessorSpec, Transform
from gauss.contracts.time import BEAT, EVENT, EventTime, PartialTransform
from gauss.model.errors import ConfigError
from gauss.registry import spec
from gauss.stream.driver.fitting import can_carry, can_write
from gauss.stream.driver.plan import (
    MARK,
    FieldRef,
    FormatRef,
    ReadPlan,
    StateRef,
    TimePlan,
    TransformRef,
    WritePlan,
    encode_schema,
    format_ref,
    to_option,
    transform_ref,
)
from gauss.stream.protocol import Timing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Design:
    """A processor understood, before it is known where its checkpoint begins."""

    processor: ProcessorDef
    stateful: bool
    """As its plugin declares; otherwise Spark's plan tells (`state_plan.py`)."""
    transform: Transform
    input: FormatRef | None
    output: FormatRef | None
    fields: list[SourceField]
    hosted: TransformRef | None
    """How a task builds the transform, if it can do the work by itself."""
    ref: TransformRef
    """How anybody builds it."""
    state: StateRef | None = None
    """Where it keeps its state too."""

    @property
    def runs(self) -> str:
        """`hosted`: standing tasks do the work; `columns`: Spark does it between codecs; `partials`: so,
        over what the readers have begun."""
        if self.hosted is not None:
            return "hosted"
        return "partials" if hasattr(self.transform, "partial") else "columns"

    @property
    def undecided(self) -> list[str]:
        """Fields whose type only a sample of records can tell."""
        return [field.name for field in self.fields if field.field_type.name == "auto"]

    def decided(self, kinds: dict[str, FieldRef]) -> list[FieldRef]:
        """Every field with its type."""
        return [
            kinds[field.name]
            if field.field_type.name == "auto"
            else FieldRef(field.name, field.field_type.name, field.field_type.attrs)
            for field in self.fields
        ]


def design(pipeline: Pipeline, processor: ProcessorDef) -> Design:
    """Builds the transform and asks it what must be decoded; raises ConfigError."""
    found = spec(ProcessorSpec, processor.plugin)
    ref = transform_ref(pipeline, processor)
    read, written = ref.input, ref.output
    transform, fields = ref.build()
    if getattr(transform, "carries", False):
        can_carry(processor, read, written)
    if hasattr(transform, "columns"):
        can_write(processor.name, transform.columns(), read, written)
    hosted = ref if found.hosted else None
    kept = found.state(found.validate(processor.config)) if found.state is not None else None
    state_format = format_ref(pipeline, processor.config.get("state_format")) or FormatRef("json")
    state = StateRef(kept, state_format) if kept is not None else None
    output = msgspec.structs.replace(written, projects=True) if written is not None else read
    return Design(processor, bool(found.stateful), transform, read, output, fields, hosted, ref, state)


def result(session: SparkSession, plan: ReadPlan, transform: Transform, records: DataFrame | None = None) -> DataFrame:
    """What the transform makes of a topic's records (or of the given ones): either `_data`, or columns to encode."""
    if records is None:
        records = session.readStream.format("gauss").option("plan", to_option(plan)).load()
    if plan.time is not None:
        records = records.withWatermark(EVENT, f"{plan.time.timing.watermark_ms} milliseconds")
        if plan.time.partial is not None:
            return _has_columns(transform.apply(records), plan)
    if "ts_ms" not in records.columns:  # a field of the format may have that name: then it is the one a query sees
        records = records.withColumn("ts_ms", F.col("_ts_ms"))
    made = transform.apply(nested(records, plan.decoded().names))
    if "_data" in made.columns:
        return made.select(*(name for name in ("_ts_ms", "_data", TOPIC, BEAT) if name in made.columns))
    return _has_columns(made, plan)


def _has_columns(made: DataFrame, plan: ReadPlan) -> DataFrame:
    if set(made.columns) <= {"_ts_ms", BEAT}:
        raise ConfigError(f'processor "{plan.processor}" gives no columns to write')
    if twice := [name for name in dict.fromkeys(made.columns) if made.columns.count(name) > 1]:
        raise ConfigError(
            f"the result has more than one column {', '.join(twice)}",
            hint="name each once (SELECT * gives all fields and ts_ms), or rename it with AS",
        )
    return made


def time_plan(design: Design, fields: list[FieldRef], restored: Path | None = None) -> TimePlan | None:
    """How the readers of a transform go by time, if it does."""
    time: EventTime | None = getattr(design.transform, "time", None)
    if time is None:
        return None
    names = {field.name.removeprefix("$."): field.name for field in fields}
    arrival = not time.field
    made = TimePlan(
        names[time.field] if time.field else "",
        Timing(time.watermark_ms, time.span_ms, time.step_ms, arrival, time.idle_ms),
        late_letters=time.late == "dead_letter",
        required=[names[name] for name in time.required],
    )
    if not hasattr(design.transform, "partial"):
        return made
    partial: PartialTransform = design.transform  # type: ignore[assignment]
    columns = partial.partial_schema(pa.schema([field.arrow() for field in fields]))
    found = str(restored) if restored is not None and restored.exists() else ""
    return msgspec.structs.replace(made, partial=design.ref, columns=encode_schema(columns), restored=found)


def passes_bytes(session: SparkSession, plan: ReadPlan, transform: Transform) -> bool:
    """Whether the result holds the records' own bytes: tried on no rows, so that bytes travel only if they must."""
    empty: list[Any] = []
    nothing = session.createDataFrame(empty, from_arrow_schema(msgspec.structs.replace(plan, keep_data=True).schema()))
    return not {"_data", REST}.isdisjoint(result(session, plan, transform, nothing).columns)


def start(session: SparkSession, read: ReadPlan, write: WritePlan, design: Design) -> Any:
    """Starts the streaming query."""
    read = msgspec.structs.replace(read, tasks=session.sparkContext.defaultParallelism)
    if design.ref.beside is not None:
        from gauss.stream.driver.two_sided import both_sides

        frame, pairs = both_sides(session, read, design)
        write = msgspec.structs.replace(write, pairs=pairs)
    else:
        if read.time is None or read.time.partial is None:
            read = msgspec.structs.replace(read, keep_data=passes_bytes(session, read, design.transform))
        frame = result(session, read, design.transform)
        if write.state is None and {"_data", REST}.isdisjoint(frame.columns):
            can_write(design.processor.name, frame.columns, design.input, design.ref.output)
        windows = hasattr(design.transform, "partial") and not getattr(design.transform, "keeps_each", False)
        write = msgspec.structs.replace(write, by_time=windows and write.state is None)
    if marks := {each.name: each.metadata.get(MARK) for each in frame.schema}:
        write = msgspec.structs.replace(write, marks={name: mark for name, mark in marks.items() if mark})
    if write.state is not None:
        from gauss.stream.driver.kept import start_kept

        return start_kept(frame, design.transform, read, write)  # type: ignore[arg-type]  # as its spec says
    return run(session, frame, read.processor, write)


def run(session: SparkSession, frame: DataFrame, name: str, write: WritePlan) -> Any:
    """Writes a frame as a streaming query."""
    # Spark looks for a Python sink in the session that is active on this thread of the JVM.
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    return (
        frame.writeStream.format("gauss")
        .queryName(name)
        .option("plan", to_option(write))
        .option("checkpointLocation", write.checkpoint_dir)
        .start()
    )


def nested(records: DataFrame, fields: list[str]) -> DataFrame:
    """Paths as SQL knows them: `$.order.id` becomes `order.id`; a spread array keeps its path as a name."""
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
