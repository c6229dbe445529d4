"""What a pipeline does, beside what its user wants: derived from leases, claims and workers in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gauss.fleet.leases.claims import ClaimShown
from gauss.fleet.leases.slots import Assignment
from gauss.fleet.store.pipelines import Pipeline
from gauss.fleet.store.workers import Worker

RUNNING, IDLE = "running", "idle"


class Status(NamedTuple):
    """The status of a pipeline."""

    desired: str
    observed: str
    """`stopped`, `stopping`, `starting`, `running`, `degraded` (some replicas are missing or wait) or `failing`."""
    reason: str
    """Why it is not what is desired; empty if it is."""
    rows: int
    batches: int
    dead_letters: int
    lag: int
    """Messages that are not yet committed."""
    lag_seconds: float
    """The age of the oldest of them."""
    dead_ratio: float
    """The share of recent records that became dead letters."""
    alert: str
    """Empty, or what somebody should look at."""


LEAST_RECORDS = 20
"""A share of fewer records means nothing."""


def status(
    pipeline: Pipeline, held: Sequence[Assignment], claims: Sequence[ClaimShown], workers: Sequence[Worker]
) -> Status:
    observed, reason = _observed(pipeline, held, workers)
    ratio = dead_ratio(claims)
    alerts = []
    if ratio > pipeline.alert_ratio:
        alerts.append(f"{ratio:.0%} of the recent records became dead letters (limit {pipeline.alert_ratio:.0%})")
    for each in claims:
        if each.is_former and each.pending_to is not None:
            place = f"partition {each.partition} of the former topic {each.topic}"
            offsets = f"offsets {each.next_offset} to {each.pending_to - 1}"
            alerts.append(f"{offsets} of {place} were not inserted for sure; use that topic again to settle them")
    return Status(
        pipeline.desired,
        observed,
        reason,
        sum(each.rows for each in claims),
        sum(each.batches for each in claims),
        sum(each.dead_letters for each in claims),
        sum(each.lag for each in claims),
        max(map(lag_seconds, claims), default=0.0),
        ratio,
        "; ".join(alerts),
    )


def lag_seconds(claim: ClaimShown) -> float:
    """The age of the oldest record of a partition that is not yet committed; 0 if there is none."""
    return max(claim.lag_ms or 0, 0) / 1000 if claim.lag else 0.0


def dead_ratio(claims: Sequence[ClaimShown]) -> float:
    """The share of recent records that became dead letters."""
    records = sum(each.window_records for each in claims)
    return sum(each.window_letters for each in claims) / records if records >= LEAST_RECORDS else 0.0


def _observed(pipeline: Pipeline, held: Sequence[Assignment], workers: Sequence[Worker]) -> tuple[str, str]:
    """From the slots that workers hold, and what workers without leases tell of their instances."""
    live = [each for each in workers if each.live]
    states = [(each.state, each.reason) for each in held]
    states += [each.instances[pipeline.id] for each in live if pipeline.id in each.instances]
    if pipeline.desired == "stopped":
        return ("stopping", f"{len(states)} slots are being drained") if states else ("stopped", "")
    if not live:
        return "starting", "no worker is up"
    if not states:
        return "starting", "no worker has taken a slot yet"
    troubled = [reason for state, reason in states if state not in (RUNNING, "starting", IDLE) and reason]
    working = any(state == RUNNING for state, _ in states)
    if troubled:
        return "degraded" if working else "failing", troubled[0]
    missing = pipeline.replicas - len(held) if held else 0
    if working and missing > 0:
        return "degraded", f"{missing} of {pipeline.replicas} replicas have no worker"
    return (RUNNING, "") if working else ("starting", "")


def by_pipeline(assignments: Sequence[Assignment]) -> dict[str, list[Assignment]]:
    found: dict[str, list[Assignment]] = defaultdict(list)
    for each in assignments:
        found[each.pipeline_id].append(each)
    return found
