"""The sink of streaming queries: each task stages its records at the engine, the commit publishes them all at once."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gauss.clients.engine.client import STAGE_SCHEMA
from gauss.clients.engine.positions import Ends
from gauss.clients.engine.task_messages import Abort, Publish, Stage
from gauss.contracts.format_batch import encode_good, projected_names
from gauss.contracts.letter import Letter
from gauss.contracts.record_field import as_key, whole_numbers
from gauss.model.errors import ProtocolError, traced
from gauss.model.names import (
    BEAT,
    DATA_COLUMN,
    DEAD_TOPIC,
    REST,
    TOPIC_COLUMN,
    TS_MS_COLUMN,
)
from gauss.stream.driver.planning.refs import MARK, OutsideTarget
from gauss.stream.driver.planning.writes import QueryWrite, ResultWrite, TaskWrite
from gauss.stream.driver.tasks.reading import (
    MOST_NAME_BYTES,
    engine,
    format_of,
    freeze_once,
    task,
    with_marks,
)

BATCH_ID = "streaming.sql.batchId"
"""The property in which Spark tells a task the number of its batch."""
HERE = OutsideTarget()
"""For topics of the engine, whose records have neither key nor partition."""
HIDDEN = (TS_MS_COLUMN, DATA_COLUMN, REST)


@dataclass
class TaskStages(WriterCommitMessage):
    """The stages that a task has sent to the engine; they are published in the order of partitions."""

    stages: list[tuple[int, str, str]] = field(default_factory=list)
    """(partition, topic, stage)."""
    letters: list[tuple[int, str]] = field(default_factory=list)
    """(partition, stage) of dead letters: rows that could not be encoded."""
    epoch: str = ""
    """The name of the epoch, by which a topic in an outside system knows what was written before."""
    written: dict[str, int] = field(default_factory=dict)
    """Bytes written to topics in outside systems."""


def stage_batch(
    batch: pa.RecordBatch, plan: ResultWrite, letters: list[Letter], target: OutsideTarget = HERE
) -> pa.RecordBatch:
    """A result as (ts_ms, data): unchanged bytes, or encoded columns. Rows that cannot be encoded are added to
    `letters`. `target`: the fields whose values become the columns `key` and `partition`."""
    names = batch.schema.names
    beside = fields_beside(batch, target)
    times = batch.column(names.index(TS_MS_COLUMN)) if TS_MS_COLUMN in names else pa.nulls(len(batch), pa.int64())
    if DATA_COLUMN in names:
        data = batch.column(names.index(DATA_COLUMN)).cast(pa.binary())
    else:
        assert plan.format is not None
        rows = batch.select([name for name in names if name not in HIDDEN])
        if plan.marks:
            rows = with_marks(rows, pa.schema([_marked(field, plan.marks) for field in rows.schema]))
        rest = batch.column(names.index(REST)).cast(pa.binary()) if REST in names else None
        made = format_of(plan.format)
        if plan.format.projects and rest is None and (schema := made.schema()) is not None:
            rows = rows.select(projected_names(schema, rows.schema.names))
        data, good, bad = encode_good(made, rows, rest)
        if bad:
            letters += [_letter(plan, rows.slice(index, 1), times[index].as_py(), why) for index, *why in bad]
            times = times.take(pa.array(good))
            beside = {name: values.take(pa.array(good)) for name, values in beside.items()}
    # A record without a time gets the largest time of the epoch's inputs.
    if len(data) != len(times):  # the format stores many rows in a record, which gets the time of its latest row
        times, beside = pa.array([pc.max(times).as_py()] * len(data), pa.int64()), {}
    staged = pa.RecordBatch.from_arrays([times, data], schema=STAGE_SCHEMA)
    for name, values in beside.items():
        staged = staged.append_column(name, values)
    return staged


def fields_beside(rows: pa.RecordBatch, target: OutsideTarget) -> dict[str, pa.Array]:
    """The columns `key` and `partition` of records, by those of their rows that have the fields."""
    found: dict[str, pa.Array] = {}
    if target.key in rows.schema.names:
        found["key"] = as_key(rows.column(target.key))
    if target.partition in rows.schema.names:
        found["partition"] = whole_numbers(rows.column(target.partition))
    return found


def _marked(field: pa.Field, marks: dict[str, str]) -> pa.Field:
    return field.with_metadata({MARK: marks[field.name]} if field.name in marks else None)


def _letter(plan: ResultWrite, row: pa.RecordBatch, ts_ms: int | None, why: list[str]) -> Letter:
    """The dead letter of a row that cannot be encoded: its data is the row as JSON, as its input is unknown here."""
    reason, detail = why
    column, colon, _ = detail.partition(": ")
    try:
        text = msgspec.json.encode(row.to_pylist()[0], enc_hook=str)
    except (ValueError, OverflowError):
        text = str(row.columns).encode()
    return Letter(
        reason=reason,
        detail=detail,
        stage="encode",
        data=text,
        topic=plan.target,
        ts_ms=ts_ms or 0,
        column=column[:MOST_NAME_BYTES] if colon and " " not in column else "",
    )


def stage_all(
    plan: ResultWrite,
    batches: Iterable[pa.RecordBatch],
    done: TaskStages,
    partition: int = 0,
    *,
    order: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]] | None = None,
) -> None:
    """Stages the records of some batches, and dead letters for rows that cannot be encoded."""
    letters: list[Letter] = []
    kept: dict[str, list[pa.RecordBatch]] = {}
    for batch in batches:
        for topic, part in by_topic(_records(batch), plan):
            kept.setdefault(topic, []).append(_staged(topic, part, plan, letters))
    if order is not None:
        kept = {topic: order(parts) for topic, parts in kept.items()}
    for topic, parts in kept.items():
        if topic in plan.outside:
            letters += _write_outside(plan, topic, parts, done, partition)
        else:
            done.stages.append((partition, topic, stage_records(plan, topic, parts)))
    stage_letters(plan, letters, done, partition)


def _staged(topic: str, part: pa.RecordBatch, plan: ResultWrite, letters: list[Letter]) -> pa.RecordBatch:
    """Rows of a result as they are written to one topic."""
    if (target := plan.outside.get(topic)) is None:
        return stage_batch(part, plan, letters)
    from gauss.stream.driver.tasks.outside_fields import with_key, with_partition

    staged = with_key(stage_batch(part, plan, letters, target), target)
    return with_partition(staged, target, plan.flight, topic, letters)[0]


def _write_outside(
    plan: ResultWrite, topic: str, parts: list[pa.RecordBatch], done: TaskStages, lane: int
) -> list[Letter]:
    """Writes the records of a task in one transaction, unless an earlier attempt of the epoch has done so. Returns
    letters of those that are too large."""
    from gauss.stream.driver.tasks.written_lanes import Lane, write_lane

    name = {"epoch": done.epoch}
    found = write_lane(Lane(plan.flight, plan.processor, topic, lane), plan.generation, parts, name, again=True)
    done.written[topic] = found.nbytes
    return found.letters


def by_time(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Sorts records by time: a topic's times never decrease, so unsorted windows would get later times."""
    records = pa.concat_batches(parts)
    return [records.take(pc.sort_indices(records.column("ts_ms")))]


def stage_letters(plan: ResultWrite, letters: list[Letter], done: TaskStages, partition: int) -> None:
    """Stages dead letters."""
    if letters:
        done.letters.append((partition, stage_records(plan, DEAD_TOPIC, [letters_batch(letters)])))


def letters_batch(letters: list[Letter]) -> pa.RecordBatch:
    """Dead letters as a batch to stage."""
    columns = [pa.nulls(len(letters), pa.int64()), pa.array(map(msgspec.json.encode, letters), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=STAGE_SCHEMA)


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without heartbeats, which only Spark's watermark needs."""
    if BEAT not in batch.schema.names:
        return batch
    beats = pc.fill_null(batch.column(BEAT), False)
    rows = batch.drop_columns([BEAT])
    return rows.filter(pc.invert(beats)) if pc.any(beats).as_py() else rows


def by_topic(batch: pa.RecordBatch, plan: ResultWrite) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a result by target topic; a row that names no target is dropped."""
    if TOPIC_COLUMN not in batch.schema.names:
        yield plan.target, batch
        return
    topics, rows = batch.column(TOPIC_COLUMN), batch.drop_columns([TOPIC_COLUMN])
    for topic in plan.routes:
        if (part := rows.filter(pc.equal(topics, topic))).num_rows:
            yield topic, part


def stage_records(plan: ResultWrite, topic: str, batches: list[pa.RecordBatch]) -> str:
    """Stages records at the engine for a later publish; returns the name of the stage."""
    stage = Stage(uuid.uuid4().hex, plan.processor, plan.generation, topic)
    engine(plan.flight).stage(stage, batches)
    return stage.stage


def offsets_of(checkpoint_dir: str, epoch: int) -> Ends:
    """The source ends of an epoch, from the offset log that Spark writes before it runs the batch."""
    path = Path(checkpoint_dir) / "offsets" / str(epoch)
    try:
        lines = path.read_text().splitlines()
        ends: Ends = {}
        for line in lines[2:]:  # version, metadata, then one line per source
            ends.update(msgspec.json.decode(line, type=Ends))
    except (OSError, msgspec.MsgspecError) as error:
        raise ProtocolError(f"Spark's offset log has no readable entry for epoch {epoch}: {path}") from error
    return ends


def watermark_of(checkpoint_dir: str, epoch: int) -> int:
    """Spark's watermark of an epoch in ms, from the offset log."""
    lines = (Path(checkpoint_dir) / "offsets" / str(epoch)).read_text().splitlines()
    return int(msgspec.json.decode(lines[1])["batchWatermarkMs"])


class EpochPublisher:
    """Publishes or drops the stages of an epoch."""

    def __init__(self, plan: QueryWrite) -> None:
        self.plan = plan

    def publish(self, messages: Sequence[WriterCommitMessage | None], epoch: int, ends: Ends) -> None:
        plan = self.plan
        found = [message for message in messages if isinstance(message, TaskStages)]
        targets: dict[str, list[str]] = {topic: [] for topic in plan.targets if topic and topic not in plan.outside}
        for _, topic, stage in sorted(stage for message in found for stage in message.stages):
            targets[topic].append(stage)
        if letters := sorted(stage for message in found for stage in message.letters):
            targets[DEAD_TOPIC] = [stage for _, stage in letters]
        written = Counter[str]()
        for message in found:
            written.update(message.written)
        whole = Publish(plan.processor, plan.generation, plan.checkpoint, epoch, ends, targets, written=dict(written))
        engine(plan.flight).publish(whole)

    def forget(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = [message for message in messages if isinstance(message, TaskStages)]
        stages = [stage for message in found for _, _, stage in message.stages]
        stages += [stage for message in found for _, stage in message.letters]
        if stages:
            # Also called after a failed commit: the engine keeps stages that a publish has named.
            engine(self.plan.flight).abort(Abort(self.plan.processor, self.plan.generation, stages))


class _TaskWriter:
    """Stages the results of tasks."""

    def __init__(self, plan: TaskWrite) -> None:
        self.plan = plan
        self.publisher = EpochPublisher(plan)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        done = TaskStages(epoch=self.plan.epoch_name(self.epoch(context)))
        with task():
            rows = (batch for batch in iterator if batch.num_rows)
            self.plan.run(rows, done, context.partitionId() if context else 0)
        freeze_once(self.plan.processor, self.plan.generation)
        return done

    @abstractmethod
    def epoch(self, context: TaskContext | None) -> int:
        """The number of the epoch of a task."""


class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; Spark creates a writer for each batch."""

    def epoch(self, context: TaskContext | None) -> int:
        return int((context and context.getLocalProperty(BATCH_ID)) or 0)

    @traced()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.publisher.publish(messages, batchId, offsets_of(self.plan.checkpoint_dir, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        self.publisher.forget(messages)


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """Writes one bounded batch, published as an epoch with the given ends."""

    def __init__(self, plan: TaskWrite, epoch: int, ends: Ends) -> None:
        super().__init__(plan)
        self._epoch, self._ends = epoch, ends

    def epoch(self, _: TaskContext | None) -> int:
        return self._epoch

    @traced()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publisher.publish(messages, self._epoch, self._ends)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publisher.forget(messages)
