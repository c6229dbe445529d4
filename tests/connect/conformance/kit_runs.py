"""Runs of the kit in tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.connect.conformance.case import CASES, Result, Role, Status
from gauss.connect.conformance.runner import Conformance
from gauss.connect.conformance.settings import KitSettings

TESTS = Path(__file__).parents[2]
REFERENCE = "connect.conformance.reference"


def reference_settings(folder: Path, **more: Any) -> KitSettings:
    """Settings of the reference connectors and of those with faults."""
    config = {"file": str(folder / "rows.db"), "password": "nobody knows"}
    return KitSettings.model_validate(
        {
            "source": config,
            "destination": config,
            "write": ["append", "replace", "upsert"],
            "verify": f"{REFERENCE}:verify",
            "fill": f"{REFERENCE}:fill",
            "patience_secs": 2.0,
            **more,
        }
    )


def run_kit(
    target: str, settings: KitSettings, role: Role | None = None, *, only: Callable[[str], bool] = lambda _: True
) -> list[Result]:
    return list(Conformance(target, settings, TESTS, role=role, only=only))


def failures(results: list[Result]) -> dict[str, str]:
    """What failed, with what was found."""
    return {f"{each.case.role}: {each.case.name}": each.detail for each in results if each.status is Status.FAILED}


def passed(results: list[Result]) -> set[str]:
    return {each.case.name for each in results if each.status is Status.PASSED}


def needed_by(name: str, role: Role) -> set[str]:
    """A case with all that have to pass before it."""
    known = {case.name: case for case in CASES.all if case.role is role}
    found, left = set[str](), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += known[each].after
    return found
