"""`gauss explain` of a sync: where it runs, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gauss.config.database_refs import side_database
from gauss.config.spec import SparkSection
from gauss.config.syncs import StreamDef, SyncDef
from gauss.connect.embedded_sides import is_embedded
from gauss.connect.placement import RULE, chosen
from gauss.connect.sync import Sync
from gauss.model.errors import GaussError


@dataclass(frozen=True)
class SyncExplained:
    """A sync in words."""

    name: str
    runs: str
    streams: list[str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        return [("runs", self.runs), *(("stream", each) for each in self.streams)]


def explain_sync(sync: SyncDef, base_dir: Path, spark: SparkSection) -> SyncExplained:
    """Asks the source for its streams, unless the placement does not depend on them."""
    streams = ["all of the source"] if sync.streams == "*" else [_words(each) for each in sync.streams]
    return SyncExplained(sync.name, _runs(sync, base_dir, spark), streams)


def _runs(sync: SyncDef, base_dir: Path, spark: SparkSection) -> str:
    if (found := chosen(sync)) is not None:
        return str(found)
    if (database := side_database("source", sync.source)) is not None:
        return f'{RULE}; the database "{database}" is not up, and not started to ask for them'
    if is_embedded(sync, "source"):
        return f"{RULE}; the embedded server is not started to ask for them"
    try:
        return str(Sync(sync, base_dir, base_dir / ".gauss", spark=spark).placement())
    except GaussError as error:
        return f"{RULE}; the source can't be asked: {error.message}"


def _words(stream: StreamDef) -> str:
    cursor = f" by {stream.cursor}" if stream.cursor else ""
    key = f" on {', '.join(stream.key)}" if stream.key else ""
    transform = "" if stream.transform is None else f", {'query' if stream.transform.sql else 'program'} between"
    return f"{stream.name}: {stream.mode}{cursor}, {stream.writing}{key}{transform}"
