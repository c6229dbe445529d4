"""Cases of the conformance kit: small functions with a name, a role and a sentence of what is expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    SOURCE = "source"
    DESTINATION = "destination"


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class CaseFailed(Exception):
    """The connector does not do what the case expects. `found`: what it does instead."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


class NotApplicable(Exception):
    """The case can't be tried on this connector."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Run = Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    """One expectation of connectors of a role."""

    name: str
    role: Role
    expected: str
    """One sentence."""
    run: Run
    after: tuple[str, ...] = ()
    """Cases that have to pass first: without them this one would fail for their reason."""


@dataclass(frozen=True)
class Result:
    """What became of a case."""

    case: Case
    status: Status
    detail: str = ""
    """What was found, or why the case is not applicable."""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "role": str(self.case.role),
            "status": str(self.status),
            "expected": self.case.expected,
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class Cases:
    """Cases in the order in which they run."""

    all: list[Case] = field(default_factory=list)

    def add(self, role: Role, name: str, expected: str, run: Run, after: tuple[str, ...] = ()) -> None:
        if any(each.name == name and each.role is role for each in self.all):
            raise ValueError(f"the case {name} is registered twice for a {role}")
        self.all.append(Case(name, role, expected, run, after))

    def both(self, name: str, expected: str, after: tuple[str, ...] = ()) -> Callable[[Run], Run]:
        """Registers a function as a case of sources and of destinations."""

        def register(run: Run) -> Run:
            for role in Role:
                self.add(role, name, expected, run, after)
            return run

        return register

    def source(self, name: str, expected: str, after: tuple[str, ...] = ("read.full_refresh",)) -> Callable[[Run], Run]:
        """Registers a function as a case of sources."""

        def register(run: Run) -> Run:
            self.add(Role.SOURCE, name, expected, run, after)
            return run

        return register

    def destination(self, name: str, expected: str, after: tuple[str, ...] = ("write.rows",)) -> Callable[[Run], Run]:
        """Registers a function as a case of destinations."""

        def register(run: Run) -> Run:
            self.add(Role.DESTINATION, name, expected, run, after)
            return run

        return register


CASES = Cases()


def check(condition: object, found: str) -> None:
    """Fails the case with what was found."""
    if not condition:
        raise CaseFailed(found)
