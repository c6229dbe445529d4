"""The status of a pipeline as the API shows it: what workers do, and how many dead letters are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gauss.fleet.leases.claims import ClaimShown
from gauss.fleet.leases.slots import Assignment
from gauss.fleet.status import status
from gauss.fleet.store.letter_totals import LetterTotals
from gauss.fleet.store.pipelines import Pipeline
from gauss.fleet.store.workers import Worker

NO_LETTERS = LetterTotals()


def status_of(
    pipeline: Pipeline,
    held: Sequence[Assignment],
    claims: Sequence[ClaimShown],
    workers: Sequence[Worker],
    letters: LetterTotals = NO_LETTERS,
) -> dict[str, Any]:
    """The fields of a `StatusShown`."""
    found = status(pipeline, held, claims, workers)
    alerts = [found.alert] if found.alert else []
    if letters.is_full:
        alerts.append(f"there is no room for more than its {letters.kept:,} dead letters: later ones are only counted")
    return {
        **found._asdict(),
        "alert": "; ".join(alerts),
        "letters_kept": letters.kept,
        "letters_dropped": letters.dropped,
        "letters_expired": letters.expired,
    }
