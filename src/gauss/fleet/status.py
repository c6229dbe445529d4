"""What a pipeline does, beside what its user wants: derived from leases, claims and workers in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from gauss.fleet.leases.claims import ClaimShown
from gauss.fleet.leases.slots import Assignment
from gauss.fleet.store.pipelines import Pipeline
from gauss.fleet.store.workers import Worker

RUNNING, WAITING = "running", "waiting"


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
    observed, reason = _observed(pipeline, held, claims, workers)
    ratio = dead_ratio(claims)
    alert = ""
    if ratio > pipeline.alert_ratio:
        alert = f"{ratio:.0%} of the recent records became dead letters (limit {pipeline.alert_ratio:.0%})"
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
        alert,
    )


def lag_seconds(claim: ClaimShown) -> float:
    """The age of the oldest record of a partition that is not yet committed; 0 if there is none."""
    return max(claim.lag_ms or 0, 0) / 1000 if claim.lag else 0.0


def dead_ratio(claims: Sequence[ClaimShown]) -> float:
    """The share of recent records that became dead letters."""
    records = sum(each.window_records for each in claims)
    return sum(each.window_letters for each in claims) / records if records >= LEAST_RECORDS else 0.0


def _observed(
    pipeline: Pipeline, held: Sequence[Assignment], claims: Sequence[ClaimShown], workers: Sequence[Worker]
) -> tuple[str, str]:
    if pipeline.desired == "stopped":
        return ("stopping", f"{len(held)} slots are being drained") if held else ("stopped", "")
    live = {each.id: each.mode for each in workers if each.live}
    if not live:
        return "starting", "no worker is up"
    without = {each.worker_id for each in claims if live.get(each.worker_id or "") == "no-leases"}
    if not held:
        if without:
            return "running", ""
        return "starting", "no worker has taken a slot yet"
    troubled = [each for each in held if each.state not in (RUNNING, "starting") and each.reason]
    working = [each for each in held if each.state == RUNNING]
    if troubled and not working:
        return "failing", troubled[0].reason
    if troubled:
        return "degraded", troubled[0].reason
    missing = pipeline.replicas - len(held)
    if working and missing > 0:
        return "degraded", f"{missing} of {pipeline.replicas} replicas have no worker"
    return ("running", "") if working else ("starting", "")


def by_pipeline(assignments: Sequence[Assignment]) -> dict[str, list[Assignment]]:
    found: dict[str, list[Assignment]] = defaultdict(list)
    for each in assignments:
        found[each.pipeline_id].append(each)
    return found
