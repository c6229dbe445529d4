"""State that lies in a topic too: one publish holds an epoch's results, the changes of that topic and the source ends.

Spark runs such a query in update mode: each epoch gives the open rows that it changed, and closed ones vanish from its
state without a word. So the open rows are also held here, in the driver, and closed by the same watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.time import BEAT, KeptTransform
from gauss.stream.client import EngineClient
from gauss.stream.driver.compile import Design
from gauss.stream.driver.plan import FieldRef, ReadPlan, StateRef, WritePlan
from gauss.stream.driver.reading import engine, format_of
from gauss.stream.driver.sink import Staged, Writing, offsets_of, stage_all, watermark_of
from gauss.stream.protocol import time_basis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY, CLOSED = "window_key", "closed"

log = logging.getLogger(__name__)


def open_rows(client: EngineClient, state: StateRef, schema: pa.Schema) -> pa.Table:
    """The newest row of each key that is not closed, from a table or a log."""
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
    """Writes the partials with which a fresh checkpoint begins."""
    assert design.state is not None
    transform: KeptTransform = design.transform  # type: ignore[assignment]  # as its spec says
    decoded = pa.schema([field.arrow() for field in fields])
    rows = open_rows(client, design.state, transform.state_schema(decoded))
    path.unlink(missing_ok=True)
    if not len(rows):
        return
    log.info("%s: %d open rows from topic %s", design.processor.name, len(rows), design.state.topic)
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
    """Turns each epoch's changes into one publish."""

    def __init__(self, transform: KeptTransform, read: ReadPlan, write: WritePlan, rows: pa.Table) -> None:
        assert write.state is not None and read.time is not None
        self._transform = transform
        self._rows = rows
        self._watermark_ms = read.time.timing.watermark_ms
        self._state = msgspec.structs.replace(write, target=write.state.topic, format=write.state.format)
        self._write = write
        self._writing = Writing(msgspec.structs.replace(write, routes=[write.target, write.state.topic]))
        self._inc = 0
        """Of the topic that has all the open rows."""

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        folder = self._write.checkpoint_dir
        ends = offsets_of(folder, epoch)
        watermark = watermark_of(folder, epoch)
        if basis := time_basis(ends):
            watermark = max(watermark, basis - self._watermark_ms)
        changed = frame.toArrow()
        changed = changed.filter(pc.invert(changed.column(BEAT))).drop_columns([BEAT])
        turn = self._transform.turn(self._rows, changed.cast(self._rows.schema), watermark)
        inc = int(engine(self._write.flight).command("topic", {"name": self._state.target})["inc"])
        changes = turn.changes
        if inc != self._inc:  # the first epoch, or a table in memory that began anew: it gets all rows
            closed = changes.filter(changes.column(CLOSED))
            changes = pa.concat_tables([closed, turn.open])
        done = Staged()
        try:
            stage_all(self._write, _some([turn.results]), done, ("", 0))
            stage_all(self._state, _some(changes.combine_chunks().to_batches()), done, ("", 1))
            self._writing.publish([done], epoch, ends)
        except Exception:
            self._writing.forget([done])
            raise
        self._rows, self._inc = turn.open, inc


def _some(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [batch for batch in batches if batch.num_rows]


def start_kept(frame: DataFrame, transform: KeptTransform, read: ReadPlan, write: WritePlan) -> Any:
    """Starts the query, with the rows that were open when its checkpoint was last written."""
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
    """The open rows of Spark's own state, as of the last epoch that it has committed."""
    commits = Path(folder) / "commits"
    if not commits.is_dir() or not any(path.name.isdigit() for path in commits.iterdir()):
        return schema.empty_table()
    state = session.read.format("statestore").load(folder)
    rows = transform.opened(state).toArrow()
    return rows.filter(pc.invert(rows.column(BEAT))).drop_columns([BEAT]).cast(schema)
