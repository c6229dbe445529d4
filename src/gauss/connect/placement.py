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


def chosen(sync: SyncDef, *, local: bool = False) -> Placement | None:
    """Where a sync runs that is not placed by its size. `local`: whether `--local` asks for this process."""
    if stream := sync.queried:
        return Placement(True, f'the transform of "{stream}" is a query')
    if local:
        return Placement(False, "asked for by --local")
    if sync.runs_on == "auto":
        return None
    return Placement(sync.runs_on == "spark", f'asked for by runs_on = "{sync.runs_on}"')


def place(sync: SyncDef, plans: list[StreamPlan], *, local: bool = False) -> Placement:
    """Decides by the config, else by the rows of full refreshes: only those are divided into tasks."""
    if (found := chosen(sync, local=local)) is not None:
        return found
    whole = [plan.found.estimated_rows for plan in plans if plan.definition.mode == "full_refresh"]
    if not whole:
        return Placement(False, "no full refresh that tasks could share")
    rows = sum(each or 0 for each in whole)
    if rows >= SMALL_ROWS:
        return Placement(True, f"about {rows:,} rows to read, which is worth Spark's start from {SMALL_ROWS:,} on")
    unknown = ", as far as the source says" if None in whole else ""
    return Placement(False, f"about {rows:,} rows to read{unknown}, Spark's start is worth it from {SMALL_ROWS:,} on")
