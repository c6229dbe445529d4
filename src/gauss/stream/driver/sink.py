"""Writing: each task stages its records at the engine, the commit publishes all of them in one action."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gauss.model.errors import ProtocolError
from gauss.stream.client import STAGE_SCHEMA
from gauss.stream.driver.plan import Work, WritePlan
from gauss.stream.driver.reading import Range, engine, format_of
from gauss.stream.protocol import Abort, Ends, Publish, Stage

HIDDEN = ("_ts_ms", "_data")

Place = tuple[str, int]
"""Stages are published in this order: a partition's number, or the topic and first offset of a hosted range."""


@dataclass
class Staged(WriterCommitMessage):
    """What one task left at the engine, each stage with its place in the publish."""

    stages: list[tuple[Place, str]]


def stage_batch(batch: pa.RecordBatch, plan: WritePlan) -> pa.RecordBatch:
    """(ts_ms, data) of a result: its bytes as they came, or its columns encoded."""
    names = batch.schema.names
    if "_data" in names:
        data = batch.column(names.index("_data")).cast(pa.binary())
    else:
        assert plan.format is not None
        data = format_of(plan.format).encode_batch(batch.select([name for name in names if name not in HIDDEN]))
    # Without a time of its own a record takes the largest of the epoch's inputs.
    times = batch.column(names.index("_ts_ms")) if "_ts_ms" in names else pa.nulls(len(batch), pa.int64())
    if len(data) != len(batch):  # a format that keeps many rows in a record: it is as new as its newest row
        times = pa.array([pc.max(times).as_py()], pa.int64())
    return pa.RecordBatch.from_arrays([times, data], schema=STAGE_SCHEMA)


def stage_all(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int = 0) -> str:
    """Keeps the records of some batches at the engine under a new stage; gives none when there are no records."""
    kept = [stage_batch(batch, plan) for batch in batches]
    if not kept:
        return ""
    stage = Stage(uuid.uuid4().hex, plan.processor, plan.generation, plan.target, partition)
    engine(plan.flight).stage(stage, kept)
    return stage.stage


def offsets_of(checkpoint_dir: str, epoch: int) -> Ends:
    """The epoch's source ends, from the log that Spark wrote before it ran the batch."""
    path = Path(checkpoint_dir) / "offsets" / str(epoch)
    try:
        lines = path.read_text().splitlines()
        ends: Ends = {}
        for line in lines[2:]:  # version, metadata, then one line per source
            ends.update(msgspec.json.decode(line, type=Ends))
    except (OSError, msgspec.DecodeError) as error:
        raise ProtocolError(f"Spark's offset log has no readable entry for epoch {epoch}: {path}") from error
    return ends


class _Writing:
    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self.plan.work is not None:
            return self._host(self.plan.work, iterator)
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        stage = stage_all(self.plan, (batch for batch in iterator if batch.num_rows), partition)
        return Staged([(("", partition), stage)] if stage else [])

    def _host(self, work: Work, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Does the work of each range; what a task that fails half-way has staged goes at once."""
        from gauss.stream.driver.hosted import run

        done = Staged([])
        try:
            for row in (row for batch in iterator for row in batch.to_pylist()):
                part = Range(**row)
                stage = stage_all(self.plan, run(work, part))
                done.stages += [((part.topic, part.start), stage)] if stage else []
        except Exception:
            self.forget([done])
            raise
        return done

    def publish(self, messages: Sequence[WriterCommitMessage | None], epoch: int, ends: Ends) -> None:
        plan = self.plan
        staged = sorted(stage for message in messages if isinstance(message, Staged) for stage in message.stages)
        targets = {plan.target: [stage for _, stage in staged]}
        engine(plan.flight).publish(Publish(plan.processor, plan.generation, plan.checkpoint, epoch, ends, targets))

    def forget(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        stages = [stage for message in messages if isinstance(message, Staged) for _, stage in message.stages]
        if stages:
            # Also called after a commit that raised: the engine keeps what a publish has named.
            engine(self.plan.flight).abort(Abort(self.plan.processor, self.plan.generation, stages))


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Made anew for every micro-batch: it keeps nothing."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.publish(messages, batchId, offsets_of(self.plan.checkpoint_dir, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002
        self.forget(messages)


class BatchWriter(_Writing, DataSourceArrowWriter):
    """One bounded write, published as an epoch whose ends are given."""

    def __init__(self, plan: WritePlan, epoch: int, ends: Ends) -> None:
        super().__init__(plan)
        self._epoch, self._ends = epoch, ends

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publish(messages, self._epoch, self._ends)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.forget(messages)
