"""Where things lie in a data directory; the one place that knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FORMAT_VERSION = 1


@dataclass(frozen=True)
class DataDir:
    """`.gauss` or whatever `--data-dir` says. Control makes and locks it; the others read and fill it."""

    root: Path

    @property
    def version(self) -> Path:
        return self.root / "VERSION"

    @property
    def lock(self) -> Path:
        """Held by control for its whole life."""
        return self.root / "lock"

    @property
    def engine_json(self) -> Path:
        """pid, endpoint (URL) and token by which other commands find the run; mode 0600."""
        return self.root / "engine.json"

    @property
    def full_token(self) -> Path:
        """The API's token that allows everything, as plain text; mode 0600; survives restarts."""
        return self.root / "full.token"

    @property
    def read_token(self) -> Path:
        """The API's token that allows requests that change nothing, likewise."""
        return self.root / "read.token"

    @property
    def run(self) -> Path:
        """What belongs to one run: pipeline.json, flight.json, the token, generation locks, processes.json."""
        return self.root / "run"

    @property
    def pipeline_json(self) -> Path:
        """The checked config with secrets filled in, for the children; mode 0600."""
        return self.run / "pipeline.json"

    @property
    def flight_json(self) -> Path:
        """`endpoint` (grpc://host:port) and `token` of the engine's Flight server; mode 0600; fixed per run."""
        return self.run / "flight.json"

    @property
    def clock(self) -> Path:
        """Unix ms, where a test holds the engine's clock still; an ordinary run has none."""
        return self.run / "clock"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def memory_ends(self) -> Path:
        """Where memory topics end, by the moment: `stream/engine/volatile_ends.py`."""
        return self.root / "memory.ends"

    @property
    def topics(self) -> Path:
        return self.root / "topics"

    @property
    def stages(self) -> Path:
        return self.root / "stages"

    @property
    def checkpoints(self) -> Path:
        """Spark's, one folder per processor and plan."""
        return self.root / "checkpoints"

    def server(self, system: str) -> Path:
        """The embedded ClickHouse or Postgres: its data, its endpoint, its secret."""
        return self.root / system

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def cache(self) -> Path:
        """What can be made again: the JVM's class archive, compiled framing loops."""
        return self.root / "cache"
