"""Which free slots a worker acquires, so that slots spread over the workers without anybody who plans for all.
`balance.py` has the shares, and what a worker gives away when another one joins."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gauss.fleet.leases.slots import SlotLease, Vacancy


class Limits(NamedTuple):
    """How many slots a worker takes at most; None for any number."""

    slots: int | None = None
    per_pipeline: int | None = None


UNLIMITED = Limits()


def choose(
    vacancies: Sequence[Vacancy],
    held: Collection[SlotLease],
    *,
    fair_share: int,
    patience_ms: int,
    limits: Limits = UNLIMITED,
    avoid: Collection[tuple[str, int]] = (),
) -> list[tuple[str, int]]:
    """The slots to acquire, without those to `avoid`. Up to its fair share a worker takes what is free; beyond it only
    what the others have left for `patience_ms`. It prefers pipelines of which it holds least, and is random beyond
    that, so that workers that start at the same time do not want the same slots."""
    counts = Counter(lease.pipeline_id for lease in held)
    total, chosen = len(held), list[tuple[str, int]]()
    order = {vacancy.pipeline_id: random.random() for vacancy in vacancies}
    free = [each for each in vacancies if (each.pipeline_id, each.slot) not in avoid]
    waiting = sorted(free, key=lambda each: (order[each.pipeline_id], each.slot))
    while waiting:
        left = []
        least = min(counts[each.pipeline_id] for each in waiting)
        for each in waiting:
            if limits.slots is not None and total >= limits.slots:
                return chosen
            if limits.per_pipeline is not None and counts[each.pipeline_id] >= limits.per_pipeline:
                continue
            if total >= fair_share and each.free_ms < patience_ms:
                continue
            if counts[each.pipeline_id] > least:
                left.append(each)  # in a later round
                continue
            chosen.append((each.pipeline_id, each.slot))
            counts[each.pipeline_id] += 1
            total += 1
        waiting = left
    return chosen
