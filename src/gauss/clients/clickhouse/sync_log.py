"""What syncs have committed, as a log in the database of their tables.

ClickHouse has no transactions, but it gives every insert into a MergeTree a block number, and the numbers grow in the
order in which inserts become visible. A table whose blocks hold one row each is therefore a log with a total order, and
everybody who replays it sees the same state:

- `claim` of a generation voids every later entry of a smaller one, so that a run that was replaced commits nothing;
- `commit` and `stage` name the entry that they follow, and are void if another entry of their partition came first, so
  that of two attempts at a partition only one counts.

A writer appends its entry, replays the log, and knows whether it counts.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gauss.clients.clickhouse.errors import sorted_errors
from gauss.clients.clickhouse.quote import qualified
from gauss.clients.clickhouse.types import parse_type
from gauss.clients.clickhouse.write import ClickHouseTarget, execute, insert

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

LOG = "_gauss_watermarks"
_COLUMNS = {
    "sync": "String",
    "stream": "String",
    "partition": "String",
    "kind": "String",
    "generation": "UInt64",
    "id": "UInt64",
    "cursor": "Nullable(String)",
    "done": "Bool",
    "follows": "UInt64",
    "publishing": "String",
    "entry": "String",
}
_TYPES = {name: parse_type(kind) for name, kind in _COLUMNS.items()}
_READ = "kind, partition, generation, id, cursor, done, follows, publishing, entry, _block_number"


class EntryKind(StrEnum):
    CLAIM = "claim"
    """A run has begun."""
    COMMIT = "commit"
    """Rows are committed, with the cursor behind them: those of the staging tables that it names will be published."""
    STAGE = "stage"
    """A partition is complete in its staging table, which waits for the end of the run."""
    PUBLISH = "publish"
    """The staging tables of all partitions will be published."""
    FINISH = "finish"
    """Everything of a run is visible."""


@dataclass(frozen=True)
class Publishing:
    """What is needed to publish staging tables, and to find out later which of their rows were published."""

    stages: list[str] = field(default_factory=list)
    rows: int = 0
    chunk_rows: int = 0
    """Rows that are inserted at once."""
    table: str = ""
    """Identity of the target table."""
    floors: dict[str, int] = field(default_factory=dict)
    """The last block of each partition of the target table before any of the rows."""
    replacement: str = ""
    """Identity of the table that replaces the target table."""


@dataclass(frozen=True)
class Entry:
    """An entry of the log."""

    kind: EntryKind
    generation: int
    partition: str = ""
    id: int = 0
    cursor: str | None = None
    """JSON, as it was given."""
    done: bool = False
    follows: int = 0
    """Block of the partition's entry before this one; 0 for the first."""
    publishing: Publishing = Publishing()
    entry: str = ""
    """Unique name."""
    block: int = 0
    """Place in the log."""


class SyncState:
    """The state of a stream after a part of the log."""

    def __init__(self) -> None:
        self.generation = 0
        """The newest run; 0 if the stream was never prepared."""
        self.claimed = 0
        """Block of its claim."""
        self.number = 0
        """The `id` of its claim: grows from run to run, also where generations begin again."""
        self.is_finished = False
        """Whether everything of that run is visible."""
        self.heads: dict[str, Entry] = {}
        """The last commit of each partition."""
        self.publish: Entry | None = None
        """What the end of a run was about to publish."""
        self.block = 0
        self.counted: set[str] = set()
        """Names of the entries that were not void."""

    def add(self, entry: Entry) -> None:
        """Replays the next entry."""
        self.block = max(self.block, entry.block)
        if entry.generation < self.generation:
            return
        match entry.kind:
            case EntryKind.CLAIM:
                self.generation, self.claimed, self.is_finished = entry.generation, entry.block, False
                self.number = max(entry.id, entry.generation)
            case EntryKind.COMMIT | EntryKind.STAGE:
                head = self.heads.get(entry.partition)
                # Without a head, the entries before this one were removed.
                if head is not None and entry.follows != head.block:
                    return
                self.heads[entry.partition] = entry
            case EntryKind.PUBLISH:
                if self.publish is not None and self.is_current(self.publish):
                    return
                self.publish = entry
            case EntryKind.FINISH:
                self.is_finished = True
        self.counted.add(entry.entry)

    def is_current(self, entry: Entry) -> bool:
        """Whether an entry is of the newest run. Its generation does not tell: one whose state was lost counts from 1
        again."""
        return entry.block > self.claimed


class SyncLog:
    """The log of one stream of a sync."""

    def __init__(self, database: str, sync: str, stream: str) -> None:
        self._name = qualified(LOG, database)
        self._which = {"sync": sync, "stream": stream}
        digest = hashlib.sha256(f"{len(sync)} {sync}{stream}".encode(errors="surrogatepass")).hexdigest()
        self.short = digest[:16]
        """A name of the stream for other objects that belong to it."""

    def create(self, client: Client) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        execute(
            client,
            [
                f"CREATE TABLE IF NOT EXISTS {self._name} ({columns}, written_at DateTime64(3, 'UTC') DEFAULT now64(3))"
                " ENGINE = MergeTree ORDER BY (sync, stream, partition)"
                " SETTINGS enable_block_number_column = 1, non_replicated_deduplication_window = 1000"
            ],
        )

    def exists(self, client: Client) -> bool:
        with sorted_errors():
            return bool(client.query(f"EXISTS TABLE {self._name}").result_rows[0][0])

    def replay(self, client: Client, state: SyncState | None = None) -> SyncState:
        """The state now; with a state, brings that one up to date."""
        state = state or SyncState()
        with sorted_errors():
            rows = client.query(
                f"SELECT {_READ} FROM {self._name} WHERE sync = {{sync:String}} AND stream = {{stream:String}}"
                " AND _block_number > {block:UInt64} ORDER BY _block_number",
                parameters={**self._which, "block": state.block},
            ).result_rows
        for row in rows:
            state.add(_entry(row))
        return state

    def append(self, client: Client, entry: Entry, state: SyncState) -> bool:
        """Appends an entry, brings the state up to date and returns whether the entry counts. Raises Unclear if it may
        have been appended."""
        entry = replace(entry, entry=uuid.uuid4().hex)
        row: dict[str, Any] = {**self._which, **asdict(entry), "publishing": json.dumps(asdict(entry.publishing))}
        del row["block"]
        rows = pa.table({name: [value] for name, value in row.items()})
        insert(client, ClickHouseTarget(self._name, _TYPES), rows, token=entry.entry)
        self.replay(client, state)
        return entry.entry in state.counted

    def compact(self, client: Client, state: SyncState) -> None:
        """Removes the entries of earlier runs, but for the last commit of each partition."""
        kept = [head.entry for head in state.heads.values()]
        with sorted_errors():
            client.command(
                f"DELETE FROM {self._name} WHERE sync = {{sync:String}} AND stream = {{stream:String}}"
                " AND generation < {generation:UInt64} AND NOT has({kept:Array(String)}, entry)",
                parameters={**self._which, "generation": state.generation, "kept": kept},
            )


def _entry(row: Sequence[Any]) -> Entry:
    kind, partition, generation, id_, cursor, done, follows, publishing, name, block = row
    return Entry(
        *(EntryKind(kind), generation, partition, id_, cursor, bool(done), follows),
        Publishing(**json.loads(publishing)),
        name,
        block,
    )
