"""Storage: where a topic's records are kept. Read modes and ownership are data, the log is the implementation."""

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
    from gauss.contracts.edge import DeadLetter
    from gauss.contracts.format import Format
    from gauss.contracts.framing import Framing


class ReadMode(StrEnum):
    OFFSET = "offset"
    LATEST = "latest"
    QUERY = "query"
    SNAPSHOT = "snapshot"
    SUBSCRIBE = "subscribe"
    RAW = "raw"  # bytes as they came, file by file: captures have no records


class WriteFull(StrEnum):
    BLOCK = "block"
    DROP = "drop"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Capacity:
    """When a topic is full, as its storage decided from its config; None: no bound."""

    records: int | None
    bytes: int | None
    write_full: WriteFull


@dataclass(frozen=True, kw_only=True)
class StorageSpec(PluginSpec):
    """`implementation(config, context)` gives a `Log`, or a `Table` where `offset` is no read mode."""

    KIND: ClassVar[str] = "storage"

    read_modes: Callable[[PluginConfig], frozenset[ReadMode]]
    """What may be asked of a topic with this config."""
    durable: bool
    """Survives the engine's death."""
    engine_owned: bool = True
    """The engine process holds the log, so edges and passthrough work on it without Spark."""
    capacity: Callable[[PluginConfig], Capacity]
    capture_implementation: str = ""
    """Where `raw` is a read mode: what gives a `CaptureStore` instead of a `Log`."""
    offline_implementation: str = ""
    """What gives a `contracts.offline.Offline` for the folders that the storage leaves on disk."""


def _no_format(name: str) -> Format:
    raise ConfigError(f'no format "{name}" here', hint="define it in [[formats]]")


@dataclass(frozen=True)
class StorageContext:
    """What a storage is told when it is opened."""

    topic: str
    directory: Path
    """The topic's own folder in the data directory; a storage may choose another in its config."""
    base_dir: Path
    """Relative paths in the config start here: the folder of the config file."""
    incarnation: Callable[[int], int]
    """Given the incarnation stored with the data (0: none), the one to use; it never repeats."""
    committed: Callable[[int], bool]
    """Whether the publish with this number is in the commit journal."""
    framing: Callable[[str, dict[str, object]], Framing]
    """Builds a framing by name and parameters."""
    format: Callable[[str], Format] = _no_format
    """A format of the config, by name."""


class BackedUp(NamedTuple):
    """A copy of a topic's files."""

    folder: str
    files: int
    records: int
    """Of captures: how many there are."""
    bytes: int


class Store(Protocol):
    """What a topic keeps its records in. One writer at a time (the topic's lock); readers take no lock.

    Records are appended, then shown together by `reveal`. What was appended and not revealed is forgotten by
    `rollback` or by a crash.
    """

    inc: int

    @property
    def floor(self) -> int:
        """The oldest place from which on everything can be read."""
        ...

    @property
    def end(self) -> int:
        """The visible end."""
        ...

    def reveal(self) -> None: ...

    def rollback(self) -> None: ...

    def last_ts(self) -> int:
        """The largest visible ts_ms so far, 0 when there is none."""
        ...

    def close(self) -> None: ...


class Log(Store, Protocol):
    """An ordered log of records."""

    framing: Framing | None
    """The framing in which bytes are kept, or None when any is kept as it came."""

    def append(self, chunk: Chunk, publish: int = 0) -> None:
        """Adds records behind everything appended, durable as the policy says; `publish` numbers the journal entry
        that will commit them."""
        ...

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        """Visible records of [start, stop) from `start` on, at least one chunk if there is any, up to about
        `max_bytes`; the first and last chunk are cut to the range. Raises Collected below the floor."""
        ...

    def offset_at(self, ts_ms: int) -> int:
        """The first visible offset whose ts_ms is not below the given one (the end if none)."""
        ...

    def bytes_from(self, offset: int) -> int:
        """Bytes held from `offset` to the appended end (whole chunks count)."""
        ...

    def offset_within(self, limit: int) -> int:
        """The lowest offset from which at most `limit` bytes are held (whole chunks count)."""
        ...

    def trim(self, floor: int) -> None:
        """Records below `floor` may go; a log that frees whole segments may keep some of them."""
        ...

    def skip_to(self, offset: int) -> None:
        """Continue at a higher offset than the end, so that none is used twice; the gap is empty."""
        ...

    def maintain(self, passed: int, now_ms: int | None = None) -> None:
        """Called every second or so, beside the writer: fsync by interval, retention by age (now: the system's clock,
        unless a test holds another) of what every reader has passed."""
        ...


class Taken(NamedTuple):
    """What a table made of a chunk: records applied, records refused because it is full, keys that gave way."""

    accepted: int
    dropped: int = 0
    evicted: int = 0


class Table(Store, Protocol):
    """The newest record of each key, and a provider of scans (`contracts.cursor`). `end` is V: how many events
    (upserts and deletions) were applied; Root(V) is what the first V of them leave."""

    capabilities: Capabilities
    counted_out: Callable[[int, int], None]
    """Told of the records and bytes of every batch that a cursor takes."""

    @property
    def staged_end(self) -> int:
        """V after `reveal`."""
        ...

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[DeadLetter]]:
        """The chunk with its keys, as `append` takes it, and what has none; beside the writer."""
        ...

    def append(self, chunk: Chunk) -> Taken:
        """Applies records behind everything appended, as far as the capacity lets it."""
        ...

    def candidates(self) -> pa.Schema: ...

    def format(self) -> Format | None: ...

    def open(self, program: Program) -> Cursor:
        """As `contracts.cursor.Provider`; a snapshot of `Seq(V)` is Root(V), as long as somebody holds it."""
        ...

    def hold(self) -> int:
        """Keeps Root(V) of the newest V until `let_go`, which is called once for each hold; gives V."""
        ...

    def let_go(self, version: int) -> None: ...

    def maintain(self) -> None:
        """Called every second or so, beside the writer: compaction."""
        ...
