"""State that is also stored in a topic: one publish holds an epoch's results, the state changes and the source ends.

Spark runs such a query in update mode: each epoch returns the open rows that it changed, and closed rows are dropped
from Spark's state without a notice. The driver therefore also holds the open rows and closes them by the same
watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.positions import time_basis
from gauss.contracts.time import KeptTransform
from gauss.model.errors import traced
from gauss.model.names import BEAT
from gauss.stream.driver.planning.reads import TimedRead
from gauss.stream.driver.planning.refs import FieldRef, StateRef
from gauss.stream.driver.planning.writes import WriteState
from gauss.stream.driver.queries.compile import Design
from gauss.stream.driver.queries.sink import EpochPublisher, TaskStages, offsets_of, stage_all, watermark_of
from gauss.stream.driver.tasks.reading import engine, format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY, CLOSED = "window_key", "closed"

log = logging.getLogger(__name__)


def open_rows(client: EngineClient, state: StateRef, schema: pa.Schema) -> pa.Table:
    """The latest row of each key that is not closed, from a table or a log."""
    batches = [
        format_of(state.format).decode_batch(batch.column("data"), schema).rows
        for batch in client.scan(state.topic)
        if batch.num_rows
    ]
    rows = pa.Table.from_batches([batch.select(schema.names).cast(schema) for batch in batches], schema)
    numbered = rows.append_column("_row", pa.array(np.arange(len(rows))))
    newest = numbered.group_by(KEY).aggregate([("_row", "max")])
    rows = rows.take(newest.column("_row_max"))
    return rows.filter(pc.invert(pc.fill_null(rows.column(CLOSED), False)))


def restore(client: EngineClient, design: Design, fields: list[FieldRef], path: Path) -> None:
    """Writes the partials that a fresh checkpoint starts with."""
    assert design.state is not None
    transform = cast("KeptTransform", design.transform)
    decoded = pa.schema([field.arrow() for field in fields])
    rows = open_rows(client, design.state, transform.state_schema(decoded))
    path.unlink(missing_ok=True)
    if not len(rows):
        return
    log.info("%s: restored %d open rows from topic %s", design.processor.name, len(rows), design.state.topic)
    partials = transform.restored(rows)
    schema = transform.partial_schema(decoded)
    given = dict(zip(partials.schema.names, partials.columns, strict=True))
    given[BEAT] = pa.repeat(False, len(partials))
    columns = [given[field.name].cast(field.type) for field in schema]
    fresh = path.with_suffix(".new")
    with pa.ipc.new_stream(str(fresh), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    fresh.rename(path)


class Keeper:
    """Publishes each epoch's results together with its state changes."""

    def __init__(self, transform: KeptTransform, read: TimedRead, write: WriteState, rows: pa.Table) -> None:
        self._transform = transform
        self._rows = rows
        self._watermark_ms = read.timing.watermark_ms
        self._state = msgspec.structs.replace(write, target=write.state.topic, format=write.state.format)
        self._write = write
        self._publisher = EpochPublisher(msgspec.structs.replace(write, routes=[write.target, write.state.topic]))
        self._inc = 0
        """Incarnation of the state topic that has all open rows."""

    @traced()
    def __call__(self, frame: DataFrame, epoch: int) -> None:
        folder = self._write.checkpoint_dir
        ends = offsets_of(folder, epoch)
        watermark = watermark_of(folder, epoch)
        if basis := time_basis(ends):
            watermark = max(watermark, basis - self._watermark_ms)
        changed = frame.toArrow()
        changed = changed.filter(pc.invert(changed.column(BEAT))).drop_columns([BEAT])
        ended = self._transform.close_windows(self._rows, changed.cast(self._rows.schema), watermark)
        inc = int(engine(self._write.flight).command("topic", {"name": self._state.target})["inc"])
        changes = ended.changes
        if inc != self._inc:  # the first epoch, or a memory table that was recreated: it gets all rows
            closed = changes.filter(changes.column(CLOSED))
            changes = pa.concat_tables([closed, ended.open])
        done = TaskStages(epoch=self._write.epoch_name(epoch))
        try:
            stage_all(self._write, _some([ended.results]), done)
            stage_all(self._state, _some(changes.combine_chunks().to_batches()), done)
            self._publisher.publish([done], epoch, ends)
        except Exception:
            self._publisher.forget([done])
            raise
        self._rows, self._inc = ended.open, inc


def _some(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [batch for batch in batches if batch.num_rows]


def start_kept(frame: DataFrame, transform: KeptTransform, read: TimedRead, write: WriteState) -> Any:
    """Starts the query with the rows that were open at the last commit of its checkpoint."""
    schema = transform.state_schema(read.decoded())
    rows = _in_store(frame.sparkSession, transform, write.checkpoint_dir, schema)
    keeper = Keeper(transform, read, write, rows)
    return (
        frame.writeStream.outputMode("update")
        .foreachBatch(keeper)
        .queryName(read.processor)
        .option("checkpointLocation", write.checkpoint_dir)
        .start()
    )


def _in_store(session: SparkSession, transform: KeptTransform, folder: str, schema: pa.Schema) -> pa.Table:
    """The open rows in Spark's own state as of the last committed epoch."""
    commits = Path(folder) / "commits"
    if not commits.is_dir() or not any(path.name.isdigit() for path in commits.iterdir()):
        return schema.empty_table()
    state = session.read.format("statestore").load(folder)
    rows = transform.opened(state).toArrow()
    return rows.filter(pc.invert(rows.column(BEAT))).drop_columns([BEAT]).cast(schema)
