"""Write plans of tasks: results for the targets of a processor, and the kinds of writes of streaming queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from gauss.stream.driver.planning.reads import ReadBlocks
from gauss.stream.driver.planning.refs import FormatRef, OutsideTarget, StateRef, TransformRef

if TYPE_CHECKING:
    from gauss.stream.driver.queries.sink import TaskStages


class ResultWrite(msgspec.Struct, frozen=True):
    """How results are encoded and staged: for which processor, and for which targets."""

    flight: str
    """Path of the file with the engine's address and token."""
    processor: str
    generation: int
    target: str = ""
    format: FormatRef | None = None
    routes: list[str] = []
    """The targets if there are several, instead of `target`; each row names its own."""
    outside: dict[str, OutsideTarget] = {}
    """Targets that tasks write to their outside system themselves."""
    marks: dict[str, str] = {}
    """Columns of Spark that hold values of any type as JSON text, with their marks, which Spark's batches lack."""

    @property
    def targets(self) -> list[str]:
        return self.routes or [self.target]


class QueryWrite(ResultWrite, frozen=True, kw_only=True):
    """The writer of a streaming query."""

    checkpoint: str
    """Identity of the checkpoint at the engine."""
    checkpoint_dir: str
    """Folder of Spark's offset log."""
    series: str
    """As `Checkpoint.series`."""

    def epoch_name(self, number: int) -> str:
        """The name of an epoch in outside systems. A later epoch of a series has a larger number."""
        return f"{self.series}/{number}"


class TaskWrite(QueryWrite, frozen=True, kw_only=True):
    """A writer whose tasks stage results; its kinds below differ in what they do with Spark's rows."""

    def run(self, batches: Iterable[pa.RecordBatch], done: TaskStages, partition: int) -> None:
        """Stages the results of a task."""
        raise NotImplementedError

    def option(self) -> str:
        return msgspec.json.encode(self).decode()


class WriteRows(TaskWrite, frozen=True, kw_only=True, tag="rows"):
    """Writes rows in the order of Spark's result."""

    def run(self, batches: Iterable[pa.RecordBatch], done: TaskStages, partition: int) -> None:
        from gauss.stream.driver.queries.sink import stage_all

        stage_all(self, batches, done, partition)


class WriteWindows(TaskWrite, frozen=True, kw_only=True, tag="windows"):
    """Writes closed windows in time order; Spark returns them unordered."""

    def run(self, batches: Iterable[pa.RecordBatch], done: TaskStages, partition: int) -> None:
        from gauss.stream.driver.queries.sink import by_time, stage_all

        stage_all(self, batches, done, partition, order=by_time)


class WritePairs(TaskWrite, frozen=True, kw_only=True, tag="pairs"):
    """Finds the pairs of records in blocks of two topics and writes the transform's results."""

    left: ReadBlocks
    right: ReadBlocks
    transform: TransformRef

    def run(self, batches: Iterable[pa.RecordBatch], done: TaskStages, partition: int) -> None:
        from gauss.stream.driver.queries.sink import stage_all
        from gauss.stream.driver.tasks.join_blocks import paired

        stage_all(self, paired(self, batches), done, partition)


WritePlan = WriteRows | WriteWindows | WritePairs


class WriteState(QueryWrite, frozen=True, kw_only=True):
    """Publishes results together with the changes of a state topic; runs in the driver."""

    state: StateRef
