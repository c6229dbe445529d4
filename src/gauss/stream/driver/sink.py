"""Writing: each task stages its records at the engine, the commit publishes all of them in one action."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gauss.contracts.format_batch import encode_good, projected_names
from gauss.contracts.processor import REST, TOPIC
from gauss.model.details import capped
from gauss.model.errors import ProtocolError
from gauss.stream.client import STAGE_SCHEMA
from gauss.stream.driver.plan import BEAT, MARK, WritePlan
from gauss.stream.driver.reading import (
    MAX_LETTER_BYTES,
    MOST_NAME_BYTES,
    engine,
    format_of,
    freeze_once,
    task,
    with_marks,
)
from gauss.stream.engine.dead import DEAD_TOPIC
from gauss.stream.protocol import Abort, Ends, Publish, Stage

HIDDEN = ("_ts_ms", "_data", REST)

Place = tuple[str, int]
"""Stages are published in this order: a partition's number, or the topic and first offset of a hosted range."""


@dataclass
class Staged(WriterCommitMessage):
    """What one task left at the engine, each stage with its place in the publish."""

    stages: list[tuple[Place, str, str]] = field(default_factory=list)
    """Place, topic and stage."""
    letters: list[tuple[Place, str]] = field(default_factory=list)
    """Stages of dead letters: rows that could not be encoded."""


def stage_batch(batch: pa.RecordBatch, plan: WritePlan, letters: list[bytes]) -> pa.RecordBatch:
    """(ts_ms, data) of a result: its bytes as they came, or its columns encoded; rows that can't be are letters."""
    names = batch.schema.names
    times = batch.column(names.index("_ts_ms")) if "_ts_ms" in names else pa.nulls(len(batch), pa.int64())
    if "_data" in names:
        data = batch.column(names.index("_data")).cast(pa.binary())
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
    # Without a time of its own a record takes the largest of the epoch's inputs.
    if len(data) != len(times):  # a format that keeps many rows in a record: it is as new as its newest row
        times = pa.array([pc.max(times).as_py()] * len(data), pa.int64())
    return pa.RecordBatch.from_arrays([times, data], schema=STAGE_SCHEMA)


def _marked(field: pa.Field, marks: dict[str, str]) -> pa.Field:
    return field.with_metadata({MARK: marks[field.name]} if field.name in marks else None)


def _letter(plan: WritePlan, row: pa.RecordBatch, ts_ms: int | None, why: list[str]) -> bytes:
    """The row itself, as JSON, is all that is left of the records it was made from."""
    reason, detail = why
    column, colon, _ = detail.partition(": ")
    try:
        text = msgspec.json.encode(row.to_pylist()[0], enc_hook=str)
    except (ValueError, OverflowError):
        text = str(row.columns).encode()
    letter: dict[str, Any] = {"reason": reason, "detail": capped(detail), "stage": "encode", "topic": plan.target}
    letter |= {"ts_ms": ts_ms or 0, "column": column[:MOST_NAME_BYTES] if colon and " " not in column else ""}
    letter["data"] = base64.b64encode(text[:MAX_LETTER_BYTES]).decode()
    return msgspec.json.encode(letter)


def stage_all(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], done: Staged, place: Place, partition: int = 0
) -> None:
    """Keeps the records of some batches at the engine under a new stage, and beside it those that became letters."""
    letters: list[bytes] = []
    kept: dict[str, list[pa.RecordBatch]] = {}
    for batch in batches:
        for topic, part in by_topic(_records(batch), plan):
            kept.setdefault(topic, []).append(stage_batch(part, plan, letters))
    if plan.by_time:
        kept = {topic: _by_time(parts) for topic, parts in kept.items()}
    done.stages += [(place, topic, stage_records(plan, topic, parts, partition)) for topic, parts in kept.items()]
    stage_letters(plan, letters, done, place, partition)


def _by_time(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """So that a key's later window comes behind its earlier one, and each keeps its time, which never goes back in a
    topic."""
    records = pa.concat_batches(parts)
    return [records.take(pc.sort_indices(records.column("ts_ms")))]


def stage_letters(plan: WritePlan, letters: list[bytes], done: Staged, place: Place, partition: int = 0) -> None:
    """Keeps dead letters beside the records."""
    if letters:
        columns = [pa.nulls(len(letters), pa.int64()), pa.array(letters, pa.binary())]
        batch = pa.RecordBatch.from_arrays(columns, schema=STAGE_SCHEMA)
        done.letters.append((place, stage_records(plan, DEAD_TOPIC, [batch], partition)))


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A result without heartbeats, which only Spark's watermark needs."""
    if BEAT not in batch.schema.names:
        return batch
    beats = pc.fill_null(batch.column(BEAT), False)
    rows = batch.drop_columns([BEAT])
    return rows.filter(pc.invert(beats)) if pc.any(beats).as_py() else rows


def by_topic(batch: pa.RecordBatch, plan: WritePlan) -> Iterator[tuple[str, pa.RecordBatch]]:
    """A result's rows by where they go; one that names none of the targets goes nowhere."""
    if TOPIC not in batch.schema.names:
        yield plan.target, batch
        return
    topics, rows = batch.column(TOPIC), batch.drop_columns([TOPIC])
    for topic in plan.routes:
        if (part := rows.filter(pc.equal(topics, topic))).num_rows:
            yield topic, part


def stage_records(
    plan: WritePlan, topic: str, batches: list[pa.RecordBatch], partition: int = 0, *, name: str = "", parent: str = ""
) -> str:
    """Keeps records at the engine until a publish names them; under a new name unless it is given."""
    stage = Stage(name or uuid.uuid4().hex, plan.processor, plan.generation, topic, partition, parent)
    engine(plan.flight).stage(stage, batches)
    return stage.stage


def offsets_of(checkpoint_dir: str, epoch: int) -> Ends:
    """The epoch's source ends, from the log that Spark wrote before it ran the batch."""
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
    """Spark's watermark in an epoch, in ms, from the same log."""
    lines = (Path(checkpoint_dir) / "offsets" / str(epoch)).read_text().splitlines()
    return int(msgspec.json.decode(lines[1])["batchWatermarkMs"])


class Writing:
    """Stages what tasks give and publishes an epoch."""

    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with task():
            done = self._written(iterator)
        freeze_once(self.plan.processor, self.plan.generation)
        return done

    def _written(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        done = Staged()
        batches: Iterable[pa.RecordBatch] = (batch for batch in iterator if batch.num_rows)
        if self.plan.pairs is not None:
            from gauss.stream.driver.blocks import paired

            batches = paired(self.plan.pairs, batches)
        stage_all(self.plan, batches, done, ("", partition), partition)
        return done

    def publish(self, messages: Sequence[WriterCommitMessage | None], epoch: int, ends: Ends) -> None:
        plan = self.plan
        found = [message for message in messages if isinstance(message, Staged)]
        targets: dict[str, list[str]] = {topic: [] for topic in plan.routes or [plan.target] if topic}
        for _, topic, stage in sorted(stage for message in found for stage in message.stages):
            targets[topic].append(stage)
        if letters := sorted(stage for message in found for stage in message.letters):
            targets[DEAD_TOPIC] = [stage for _, stage in letters]
        whole = Publish(plan.processor, plan.generation, plan.checkpoint, epoch, ends, targets)
        engine(plan.flight).publish(whole)

    def forget(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        found = [message for message in messages if isinstance(message, Staged)]
        stages = [stage for message in found for _, _, stage in message.stages]
        stages += [stage for message in found for _, stage in message.letters]
        if stages:
            # Also called after a commit that raised: the engine keeps what a publish has named.
            engine(self.plan.flight).abort(Abort(self.plan.processor, self.plan.generation, stages))


class StreamWriter(Writing, DataSourceStreamArrowWriter):
    """Made anew for every micro-batch: it keeps nothing."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.publish(messages, batchId, offsets_of(self.plan.checkpoint_dir, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        self.forget(messages)


class BatchWriter(Writing, DataSourceArrowWriter):
    """One bounded write, published as an epoch whose ends are given."""

    def __init__(self, plan: WritePlan, epoch: int, ends: Ends) -> None:
        super().__init__(plan)
        self._epoch, self._ends = epoch, ends

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publish(messages, self._epoch, self._ends)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.forget(messages)
