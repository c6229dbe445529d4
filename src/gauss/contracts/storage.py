"""Storage contract: specs of storages, and the logs and tables in which topics store records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from gauss.contracts.plugin import PluginConfig, PluginSpec
from gauss.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.chunk import Chunk
    from gauss.contracts.cursor import Capabilities, Cursor, Placed, Program
    from gauss.contracts.format import Format
    from gauss.contracts.framing import Framing
    from gauss.contracts.letter import Letter


class ReadMode(StrEnum):
    OFFSET = "offset"
    LATEST = "latest"
    QUERY = "query"
    SNAPSHOT = "snapshot"
    SUBSCRIBE = "subscribe"
    RAW = "raw"  # byte streams file by file: captures have no records


class TopicKind(StrEnum):
    """Kind of a topic's content."""

    LOG = "log"  # records in order
    TABLE = "table"  # the newest record of each key, in the engine
    STORED_TABLE = "stored_table"  # rows in an external system; the engine stores the records not inserted yet
    CAPTURES = "captures"  # byte streams, one file per connection

    @property
    def has_rows(self) -> bool:
        """Whether it is read by snapshot or query, not by offset."""
        return self in (TopicKind.TABLE, TopicKind.STORED_TABLE)


class WriteFull(StrEnum):
    BLOCK = "block"
    DROP = "drop"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Capacity:
    """Capacity of a topic, from its config. `None`: unlimited."""

    records: int | None
    bytes: int | None
    write_full: WriteFull


@dataclass(frozen=True, kw_only=True)
class StorageSpec(PluginSpec):
    """Spec of a storage. `implementation(config, context)` returns a `Log`, or a `Table` without the read mode
    `offset`."""

    KIND: ClassVar[str] = "storage"

    read_modes: Callable[[PluginConfig], frozenset[ReadMode]]
    """Supported read modes with this config."""
    durable: bool
    """Whether records survive a restart of the engine."""
    capacity: Callable[[PluginConfig], Capacity]
    capture_implementation: str = ""
    """If `raw` is a read mode: the constructor of its `CaptureStore`."""
    offline_implementation: str = ""
    """The constructor of a `contracts.offline.Offline` for the storage's folders."""
    hosts: Callable[[PluginConfig], list[str]] = lambda _: []
    """The hosts of the outside system in which its topics are."""
    task_implementation: str = ""
    """If tasks read and write its topics themselves: the constructor of a `contracts.shared_log.TaskLog`, called with
    the config, the topic's folder and a function that builds a format by name. `implementation` then returns a
    `contracts.shared_log.SharedLog`."""
    repeats: Callable[[PluginConfig], str] = lambda _: ""
    """Why a record that a task writes may be duplicated. Empty if it cannot."""
    live_check: str = ""
    """A function that asks the outside system of some topics about them (`contracts.shared_log.LiveCheck`)."""

    def kind(self, config: PluginConfig) -> TopicKind:
        """Kind of the content of a topic with this config."""
        modes = self.read_modes(config)
        if ReadMode.RAW in modes:
            return TopicKind.CAPTURES
        return TopicKind.LOG if ReadMode.OFFSET in modes else TopicKind.TABLE


def no_format(name: str) -> Format:
    raise ConfigError(f'no format "{name}" here', hint="define it in [[formats]]")


@dataclass(frozen=True)
class StorageContext:
    """Arguments of a storage when it is opened."""

    topic: str
    directory: Path
    """The topic's folder in the data directory. A storage may have another one in its config."""
    base_dir: Path
    """Base of relative paths in the config: the folder of the config file."""
    incarnation: Callable[[int], int]
    """Returns the incarnation to use, given the one stored with the data (0: none). Never repeats."""
    committed: Callable[[int], bool]
    """Whether the publish with this number is in the commit journal."""
    framing: Callable[[str, dict[str, object]], Framing]
    """Builds a framing by name and parameters."""
    format: Callable[[str], Format] = no_format
    """A format of the config, by name."""


class BackedUp(NamedTuple):
    """A copy of a topic's files."""

    folder: str
    files: int
    records: int
    """For captures: their number."""
    bytes: int


class Store(Protocol):
    """Stores the records of a topic. One writer at a time (the topic's lock); readers take no lock.

    Records are appended, then made visible together by `reveal`. Appended records that were not revealed are discarded
    by `rollback` or a crash.
    """

    inc: int

    @property
    def floor(self) -> int:
        """The oldest readable offset."""
        ...

    @property
    def end(self) -> int:
        """The end of the visible records."""
        ...

    def reveal(self) -> None: ...

    def rollback(self) -> None: ...

    def last_ts(self) -> int:
        """The largest visible `ts_ms`, 0 if there is none."""
        ...

    def close(self) -> None: ...


class Log(Store, Protocol):
    """An ordered log of records."""

    framing: Framing | None
    """The framing in which bytes are stored. `None` if chunks keep the framing they were received in."""
    times_vary: bool
    """Whether `ts_ms` may decrease from one record to the next, since others write to it too."""

    def append(self, chunk: Chunk, publish: int = 0) -> None:
        """Appends records, with the durability of the config. The chunk may have any framing, but its records fit
        `framing`. `publish` is the number of the journal entry that will commit them."""
        ...

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """Visible records of [start, stop), up to about `max_bytes` but at least one chunk if there is any. The first
        and last chunk are cut to the range. Raises Collected below the floor."""
        ...

    def offset_at(self, ts_ms: int) -> int:
        """Offset of the first visible record with `ts_ms >=` the given time, or the end."""
        ...

    def bytes_from(self, offset: int) -> int:
        """Bytes from `offset` to the end of the appended records, in whole chunks."""
        ...

    def offset_within(self, limit: int) -> int:
        """The lowest offset with at most `limit` bytes after it, in whole chunks."""
        ...

    def trim(self, floor: int) -> None:
        """Allows records below `floor` to be deleted. A log that deletes whole segments may keep some."""
        ...

    def skip_to(self, offset: int) -> None:
        """Continues at a higher offset than the end, so that no offset is reused. The gap has no records."""
        ...

    def maintain(self, passed: int, now_ms: int | None = None) -> None:
        """Syncs by interval, and deletes by age records that every reader has passed. Called about every second,
        concurrently with the writer. `now_ms` is the system clock except in tests."""
        ...


class TableAppended(NamedTuple):
    """Result of an append to a table: applied records, records refused because it is full, and evicted keys."""

    accepted: int
    dropped: int = 0
    evicted: int = 0


class Table(Store, Protocol):
    """The newest record of each key, and a provider of scans (`contracts.cursor`). `end` is the version V: the number
    of applied upserts and deletions. Root(V) is the table after the first V of them."""

    capabilities: Capabilities

    @property
    def staged_end(self) -> int:
        """The version after `reveal`."""
        ...

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        """Extracts the keys of a chunk for `append`. Returns letters for records without one. Needs no lock."""
        ...

    def append(self, chunk: Chunk) -> TableAppended:
        """Applies records, as far as the capacity allows."""
        ...

    def candidates(self) -> pa.Schema: ...

    def format(self) -> Format | None: ...

    def open(self, program: Program) -> Cursor:
        """As `contracts.cursor.Provider`. A snapshot of `Seq(V)` is Root(V), while it is held."""
        ...

    def hold(self) -> int:
        """Retains Root(V) of the newest V until `unpin`, which is called once per hold. Returns V."""
        ...

    def unpin(self, version: int) -> None: ...

    def maintain(self) -> None:
        """Compacts the table. Called about every second, concurrently with the writer."""
        ...
