"""Faults of a config with their positions. They are collected, not raised one by one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from gauss.config.positions import KeyPath, Position
from gauss.config.secrets import HIDDEN, Redactor


@dataclass(frozen=True)
class Fault:
    """One fault. A `warning` does not prevent a run."""

    file: str
    line: int
    column: int
    path: str
    """`processors[0].config.port`"""
    message: str
    expected: str = ""
    found: str = ""
    hint: str = ""
    warning: bool = False

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {'warning: ' if self.warning else ''}{self.message}"
        if self.expected or self.found:
            text += " — " + ", ".join(
                f"{word} {value}" for word, value in (("expected", self.expected), ("found", self.found)) if value
            )
        return f"{text}; {self.hint}" if self.hint else text

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


class Faults:
    """Collects the faults of one file, with lines, and redacts secrets."""

    def __init__(self, file: Path, positions: dict[KeyPath, Position]) -> None:
        self.file = file
        self.positions = positions
        self.redactor = Redactor()
        self.found: list[Fault] = []
        self._seen: set[KeyPath] = set()
        self._settled: set[KeyPath] = set()

    def add(
        self,
        path: KeyPath,
        message: str,
        *,
        expected: str = "",
        found: object = None,
        hint: str = "",
        warning: bool = False,
    ) -> None:
        """Adds a fault at a key path. `found` is shown as TOML, unless it contains a secret."""
        if path in self._settled:
            return
        place = self.position(path)
        hide = self.redactor.redact
        self._seen.add(path)
        self.found.append(
            Fault(
                file=str(self.file),
                line=place.line,
                column=place.column,
                path=dotted(path),
                message=hide(message),
                expected=hide(expected),
                found="" if found is None else HIDDEN if self.redactor.holds(path) else hide(shown(found)),
                hint=hide(hint),
                warning=warning,
            )
        )

    def has(self, path: KeyPath) -> bool:
        """Whether a fault at or below this path was reported; faults that follow from it are not."""
        return any(seen[: len(path)] == path for seen in self._seen)

    def settle(self, path: KeyPath) -> None:
        """Suppresses further faults at this path."""
        self._settled.add(path)

    def drop(self, *paths: KeyPath) -> None:
        """Removes the faults at exactly these paths, to replace them by better ones."""
        names = {dotted(path) for path in paths}
        self.found = [fault for fault in self.found if fault.path not in names]
        self._seen -= set(paths)

    def position(self, path: KeyPath) -> Position:
        """The position of a path, or of its nearest parent if the key is missing."""
        for length in range(len(path), 0, -1):
            if found := self.positions.get(path[:length]):
                return found
        return Position(1, 1)

    def sorted(self) -> list[Fault]:
        return sorted(self.found, key=lambda fault: (fault.line, fault.column, fault.warning))

    @property
    def errors(self) -> int:
        return sum(not fault.warning for fault in self.found)


@dataclass(frozen=True)
class Scope:
    """One entry of a config; its faults share a path and a message prefix."""

    faults: Faults
    path: KeyPath
    subject: str

    def add(
        self,
        keys: KeyPath,
        message: str,
        *,
        expected: str = "",
        found: object = None,
        hint: str = "",
        warning: bool = False,
    ) -> None:
        """Adds a fault at keys below the path of the scope."""
        self.faults.add(
            (*self.path, *keys),
            f"{self.subject}: {message}",
            expected=expected,
            found=found,
            hint=hint,
            warning=warning,
        )

    def inside(self, *keys: str | int) -> Scope:
        return Scope(self.faults, (*self.path, *keys), self.subject)

    def has(self, *keys: str | int) -> bool:
        return self.faults.has((*self.path, *keys))

    def line(self, *keys: str | int) -> int:
        return self.faults.position((*self.path, *keys)).line


def dotted(path: KeyPath) -> str:
    """Formats a key path: `processors[0].config.port`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """Formats a value as TOML, shortened if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:38]}…{text[-40:]}"  # the end of a path is the telling part
