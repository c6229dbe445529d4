"""Plans of standing tasks."""

from __future__ import annotations

import msgspec

from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FormatRef, OutsideTarget, TransformRef


class ChainStep(msgspec.Struct, frozen=True):
    """A processor of a chain: it reads and decodes records, transforms them, encodes and stages the result."""

    name: str
    topic: str
    """The topic of its records; behind the head, a target of an earlier step."""
    read: RangeRead
    transform: TransformRef
    mode: str
    """The read mode of its source."""
    target: str
    format: FormatRef | None = None
    routes: list[str] = []
    outside: dict[str, OutsideTarget] = {}
    """As `ResultWrite.outside`."""

    @property
    def targets(self) -> list[str]:
        return self.routes or [self.target]


class ChainPlan(msgspec.Struct, frozen=True):
    """A chain: its head, and the steps behind it, each after the one that feeds it."""

    head: ChainStep
    steps: list[ChainStep] = []

    @property
    def name(self) -> str:
        return self.head.name

    def without(self, names: set[str]) -> ChainPlan:
        """The chain without some members behind the head and those that they feed."""
        left: list[ChainStep] = []
        fed = set(self.head.targets)
        for step in self.steps:
            if step.name not in names and step.topic in fed:
                left.append(step)
                fed |= set(step.targets)
        return ChainPlan(self.head, left)


class Sizes(msgspec.Struct, frozen=True):
    """Limits of the size of epochs, and their target duration."""

    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20
    target_ms: int = 200
    min_rows: int = 0
    """Fewer records are held back, up to `flush_ms`."""
    flush_ms: int = 0


class HostedPlan(msgspec.Struct, frozen=True, tag="hosted"):
    """A standing task that runs chains which read the same topic in the same format."""

    flight: str
    job: int
    sizes: Sizes
    chains: list[ChainPlan]


class TableWork(msgspec.Struct, frozen=True):
    """The table that a task fills. Everything else is read from the run's config, which may hold secrets."""

    data_dir: str
    topic: str
    lacking: list[str]
    """Columns of the schema that the live table does not have."""
    settle_s: float
    """How long an insert may still be in flight at the server after its process died."""


class TablePlan(msgspec.Struct, frozen=True, tag="table"):
    """A standing task that empties the inbox of a table."""

    flight: str
    job: int
    sizes: Sizes
    processor: str
    work: TableWork


StandingPlan = HostedPlan | TablePlan
