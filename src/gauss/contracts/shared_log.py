"""Logs in an outside system that others read and write too. Their partitions are read and written by Spark's tasks
themselves; the engine knows only their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from gauss.contracts.plugin import PluginConfig
from gauss.contracts.storage import Log
from gauss.model.errors import StorageError, Unavailable

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.chunk import Chunk
    from gauss.contracts.cursor import Provider
    from gauss.contracts.letter import Letter


class LogPartition(Protocol):
    """One partition of a `SharedLog`, as far as the engine knows it."""

    number: int

    @property
    def floor(self) -> int:
        """The oldest readable offset."""
        ...

    @property
    def end(self) -> int:
        """The end of the records that can be read: nothing before it is part of an open transaction."""
        ...

    def offset_at(self, ts_ms: int) -> int:
        """An offset before which no record has `ts_ms >=` the given time, or the end."""
        ...

    def bytes_between(self, start: int, stop: int) -> int:
        """Estimated size of the records [start, stop)."""
        ...

    def records(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The records [start, stop) that still exist, as batches of `model.batch.KEYED_SCHEMA`."""
        ...


class SharedLog(Log, Protocol):
    """A log whose order is that in which the engine saw its partitions grow.

    As a `Log`, it serves sinks and scans of the engine: its offset is the sum of the offsets of its partitions, so that
    the offsets of a log with one partition are those of its system. `inc` changes while it is open if the log is
    deleted and made anew.
    """

    def partitions(self) -> Sequence[LogPartition]:
        """All partitions, by number; more of them later if the outside system adds some."""
        ...

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        """The records that can be appended, `None` if there are none, and letters of the others. Needs no lock."""
        ...

    def send(self) -> None:
        """Sends what is appended, before the journal entry that names it is written: what the journal has must exist.
        If the engine dies in between, the records exist without the entry, and their source repeats them."""
        ...

    def take_refused(self) -> list[pa.RecordBatch]:
        """The records that were too large to be sent, since the last call."""
        ...

    def close(self) -> None:
        """As `Log.close`, also while another thread is in `send`, which then raises Unavailable."""
        ...

    def look(self) -> None:
        """Asks the system for the ends of the partitions now."""
        ...

    def follow(self, moved: Callable[[], None], *, needed: Callable[[], bool]) -> None:
        """Calls `moved` whenever an end, the number of partitions or the incarnation has changed. `needed`: whether
        somebody waits for records now; if not, it may look less often."""
        ...

    def ends_at(self, offset: int) -> Mapping[int, int]:
        """The position of a reader of the log, by partition: the records before an offset."""
        ...

    def lane(self, writer: str, since_ms: int) -> LaneWriter:
        """As `TaskLog.lane`, for a writer in the engine, which has one lane."""
        ...

    def written(self, chunk: Chunk) -> pa.RecordBatch:
        """Records as a lane writes them, with keys and partitions that fields choose."""
        ...

    def rows(self) -> Provider | None:
        """Its newest record of each key, as the rows of a table for scans; `None` without the read mode `snapshot`."""
        ...

    def note_position(self, group: str, ends: Mapping[int, int]) -> None:
        """Shows the position of a reader, by partition, to the system's own tools; a failure is logged."""
        ...


class TaskLog(Protocol):
    """A shared log as Spark's tasks read and write it."""

    def read(
        self, inc: int, partition: int, start: int, stop: int, missed: Callable[[int, int], None]
    ) -> Iterator[pa.RecordBatch]:
        """The records [start, stop) of a partition, as batches of `model.batch.KEYED_SCHEMA`.

        Calls `missed` with the part of the range that was deleted by age before it was read. Raises Rejected if the log
        is no longer the one with this incarnation. What was read may be used after a later `check`.
        """
        ...

    def check(self, inc: int) -> None:
        """Raises Rejected if the log is no longer the one with this incarnation: what was read before may then belong
        to another log, and must not be used. Asked once for all ranges, since it takes longer with many partitions."""
        ...

    def snapshot(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The newest record of each key, without deleted keys and records without a key, as of now: batches of
        `model.batch.KEYED_SCHEMA`, each of one partition. Only with the read mode `snapshot`."""
        ...

    def partitions(self) -> int:
        """The number of partitions."""
        ...

    def lane(self, writer: str, number: int, since_ms: int) -> LaneWriter:
        """The writer of one lane. Opening it fences and rolls back an earlier one of the same lane.

        `since_ms`: the start of the run. If a run with another data directory that started later writes to this lane,
        `LaneTaken` is raised, and that run is not disturbed.
        """
        ...

    def close(self) -> None: ...


class TopicUnusable(Unavailable):
    """The topic is missing in the outside system, or refused to this user: that may change, so it is tried again."""

    code = "topic_unusable"


class LaneTaken(StorageError):
    """Another run writes with the same ids."""

    code = "lane_taken"


Refused = Callable[["pa.RecordBatch"], None]
"""Called with records that the system refuses because of their size."""


class LaneWriter(Protocol):
    """Writes epochs, one transaction each, which holds the records and the epoch's name."""

    def committed(self) -> Mapping[str, Any] | None:
        """What this data directory's last committed transaction in this lane named; `None` if there was none, or if the
        system has no transactions."""
        ...

    def write(self, batches: Sequence[pa.RecordBatch], name: Mapping[str, Any], refused: Refused) -> None:
        """Commits records (`data` and, if known, `key`, `headers`, `ts_ms`, `partition`) under the epoch's name, all or
        nothing. Records that are too large are left out: `refused` is called with them, before the others are committed
        if the system has transactions.

        After `Unclear`, and after any other error, the lane must be opened again and `committed` be asked.
        """
        ...

    def repeat(self, batches: Sequence[pa.RecordBatch], refused: Refused) -> None:
        """Calls `refused` with the records that were left out of the last epoch, which had these records. Nothing is
        written."""
        ...

    def close(self) -> None: ...


class TopicToCheck(NamedTuple):
    name: str
    config: PluginConfig
    written: bool
    """Whether Spark's tasks write to it."""
    snapshots: bool = False
    """Whether processors read it by `snapshot`."""


class TopicFinding(NamedTuple):
    """One thing that the outside system says of a topic."""

    topic: str
    status: Literal["success", "warning", "failed"]
    message: str
    hint: str = ""
    key: str = ""
    """The key of the config that is at fault."""


LiveCheck = Callable[[Sequence[TopicToCheck]], Iterator[TopicFinding]]
"""Asks for all topics of a storage, each by itself, without creating any. Raises nothing."""
