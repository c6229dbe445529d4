"""The layout of a data directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gauss.model.errors import StorageError

FORMAT_VERSION = 1


@dataclass(frozen=True)
class DataDir:
    """A data directory (`--data-dir`, default `.gauss`). Control creates and locks it; the other processes use it."""

    root: Path

    @property
    def version(self) -> Path:
        return self.root / "VERSION"

    @property
    def lock(self) -> Path:
        """Locked by control while it runs."""
        return self.root / "lock"

    @property
    def engine_json(self) -> Path:
        """pid, endpoint (URL) and token of the run, for other commands; mode 0600."""
        return self.root / "engine.json"

    @property
    def full_token(self) -> Path:
        """The API token with full access, as plain text; mode 0600; kept across restarts."""
        return self.root / "full.token"

    @property
    def read_token(self) -> Path:
        """The read-only API token, as plain text; mode 0600; kept across restarts."""
        return self.root / "read.token"

    @property
    def run(self) -> Path:
        """Files of the current run: pipeline.json, flight.json, generation locks, processes.json."""
        return self.root / "run"

    @property
    def pipeline_json(self) -> Path:
        """The checked config with secrets, for the child processes; mode 0600."""
        return self.run / "pipeline.json"

    @property
    def flight_json(self) -> Path:
        """`endpoint` (grpc://host:port) and `token` of the engine's Flight server; mode 0600; fixed per run."""
        return self.run / "flight.json"

    @property
    def clock(self) -> Path:
        """The time of the engine in Unix ms, set by `gauss test`; absent in an ordinary run."""
        return self.run / "clock"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def memory_ends(self) -> Path:
        """The current ends of memory topics: `stream/engine/topics/volatile_ends.py`."""
        return self.root / "memory.ends"

    @property
    def topics(self) -> Path:
        return self.root / "topics"

    @property
    def stages(self) -> Path:
        return self.root / "stages"

    @property
    def checkpoints(self) -> Path:
        """Spark checkpoints: one folder per processor and plan."""
        return self.root / "checkpoints"

    def server(self, system: str) -> Path:
        """Data, endpoint and secret of the embedded ClickHouse or Postgres."""
        return self.root / system

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def cache(self) -> Path:
        """Caches: the class archive of the JVM, compiled framing loops."""
        return self.root / "cache"


def unusable(root: Path, error: OSError) -> StorageError:
    """The error of a data directory that can't be made, read or locked."""
    return StorageError(
        f"the data directory {root} can't be used: {error.strerror or error}",
        hint="choose another with --data-dir, or give this user the right to write there",
    )
