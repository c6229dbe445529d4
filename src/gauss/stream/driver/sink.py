"""Writing: each task stages its records at the engine, the commit publishes all of them in one action."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from gauss.model.errors import ProtocolError
from gauss.stream.client import STAGE_SCHEMA
from gauss.stream.driver.plan import WritePlan
from gauss.stream.driver.source import engine, format_of
from gauss.stream.protocol import Abort, Ends, Publish, Stage

HIDDEN = ("_ts_ms", "_data")


@dataclass
class Staged(WriterCommitMessage):
    """What one task left at the engine; `stage` is empty when it had nothing."""

    partition: int
    stage: str
    rows: int


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
    return pa.RecordBatch.from_arrays([times, data], schema=STAGE_SCHEMA)


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
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        batches = [stage_batch(batch, self.plan) for batch in iterator if batch.num_rows]
        if not batches:
            return Staged(partition, "", 0)
        stage = Stage(uuid.uuid4().hex, self.plan.processor, self.plan.generation, self.plan.target, partition)
        return Staged(partition, stage.stage, engine(self.plan.flight).stage(stage, batches))

    def publish(self, messages: list[WriterCommitMessage | None], epoch: int, ends: Ends) -> None:
        plan = self.plan
        staged = sorted((m for m in messages if isinstance(m, Staged) and m.stage), key=lambda m: m.partition)
        engine(plan.flight).publish(
            Publish(
                plan.processor,
                plan.generation,
                plan.checkpoint,
                epoch,
                ends,
                {plan.target: [message.stage for message in staged]},
            )
        )

    def forget(self, messages: list[WriterCommitMessage | None]) -> None:
        stages = [message.stage for message in messages if isinstance(message, Staged) and message.stage]
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
