"""What the driver and the engine tell each other about the state of the work on Spark."""

from __future__ import annotations

import msgspec


class QueryStatus(msgspec.Struct):
    """The state of a processor's query, as the driver reports it."""

    processor: str
    state: str
    """starting, running, waiting, failed, done"""
    detail: str = ""
    epoch: int = -1
    batch_rows: int = 0
    batch_ms: int = 0
    rows_per_second: float = 0.0
    failures: int = 0
    runs: str = ""
    """hosted (standing tasks do the work) or columns (Spark does it between codecs)"""
    trace: str = ""
    """Path of the log that holds the Java trace."""


class DriverSync(msgspec.Struct, tag=True):
    """The driver's heartbeat: reports its queries and asks for commands."""

    queries: list[QueryStatus]


class DriverCommand(msgspec.Struct):
    """What the driver is to do with a processor."""

    processor: str
    action: str
    """retry, skip, stop"""


class StandingProgress(msgspec.Struct):
    """The progress of a processor of a standing job."""

    job: int
    """The number of the job that has claimed it."""
    published: int
    """Epochs since the engine started."""
    behind: int
    """Unread records."""
    rows: int = 0
    """Records of its last epoch."""
    under_way_s: float = 0.0
    """The age of its oldest unpublished epoch; 0 while that waits for room in a full target."""
    busy_s: float = 0.0
    """How long the task has been working on this processor alone, as the task reports it."""


class DriverSynced(msgspec.Struct):
    """The answer to `DriverSync`."""

    commands: list[DriverCommand]
    news: dict[str, StandingProgress] = {}
    apart: dict[str, str] = {}
    """Processors that need a task of their own, and why; each is reported once."""
