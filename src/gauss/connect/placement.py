"""Where a sync runs: in this process, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.config.syncs import SyncDef
from gauss.connect.plan import StreamPlan

SMALL_ROWS = 5_000_000
"""A sync with fewer rows is done before Spark's tasks would run."""


RULE = f"in this process below {SMALL_ROWS:,} rows to read, else on Spark"


@dataclass(frozen=True)
class Placement:
    spark: bool
    why: str

    def __str__(self) -> str:
        return f"{'on Spark' if self.spark else 'in this process'}: {self.why}"


def needs_spark(sync: SyncDef) -> str:
    """The stream whose transform only Spark can run; empty if there is none."""
    streams = [] if sync.streams == "*" else sync.streams
    return next((each.name for each in streams if each.transform is not None and each.transform.sql is not None), "")


def place(sync: SyncDef, plans: list[StreamPlan], *, local: bool = False) -> Placement:
    """Decides by the transforms and the size of the streams. `local`: whether this process is asked for."""
    if stream := needs_spark(sync):
        return Placement(True, f'the transform of "{stream}" is a query')
    if local:
        return Placement(False, "asked for by --local")
    rows = sum(plan.found.estimated_rows or 0 for plan in plans if plan.definition.mode == "full_refresh")
    if rows >= SMALL_ROWS:
        return Placement(True, f"about {rows:,} rows to read, which is worth Spark's start from {SMALL_ROWS:,} on")
    return Placement(False, f"about {rows:,} rows to read, Spark's start is worth it from {SMALL_ROWS:,} on")
