"""What a part of a script contributes to the key of its step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gauss.dbstates.planning.files import Script
from gauss.dbstates.planning.plan import Ingredient, Input, Kind, Mark, digest

_SINGLE, _GROUP = 256, 16
_SHORT = 16


class Content:
    """Parts of a step's content in the order in which they take effect, and what explains them."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.marks: list[Mark] = []
        self.lines: dict[str, list[tuple[int, str]]] = {}
        """By file: line and digest of each statement and command, as it is written."""
        self._scripts: dict[Path, Script] = {}
        self._data: dict[str, Input] = {}
        self._inputs: list[Input] = []
        self._named: dict[tuple[Kind, str], str] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing of it is executed."""
        return not self.parts

    def add(self, *parts: bytes | str) -> str:
        """Adds a part that can change the result; returns its digest."""
        found = digest(*parts)
        self.parts.append(found)
        return found

    def source(self, label: str, line: int, *parts: bytes | str) -> None:
        """Adds the text of a statement or command, to name its line when it changes."""
        self.source_digest(label, line, digest(*parts))

    def source_digest(self, label: str, line: int, found: str) -> None:
        """The same for a text whose digest is known."""
        self.lines.setdefault(label, []).append((line, found[:_SHORT]))

    def script(self, script: Script) -> None:
        self._scripts[script.path] = script

    def data(self, label: str, file: Input) -> None:
        """Adds a data file, whose content can change the result."""
        self._data[label] = file
        self.add("data", file.sha256)

    def data_input(self, file: Input) -> None:
        """Notes a file whose relevant parts have been added."""
        self._inputs.append(file)

    def name(self, kind: Kind, name: str, value: bytes | str | None) -> None:
        """Notes a variable, flag or the like that the parts already depend on."""
        self._named[kind, name] = digest("" if value is None else "=", value or "")

    def mark(self, reason: str, path: str, line: int) -> None:
        found = Mark(reason, path, line)
        if found not in self.marks:
            self.marks.append(found)

    def append(self, other: Content) -> None:
        """Adds what takes effect after this."""
        self.parts += other.parts
        for mark in other.marks:
            self.mark(mark.reason, mark.path, mark.line)
        for label, lines in other.lines.items():
            self.lines.setdefault(label, []).extend(lines)
        self._scripts.update(other._scripts)
        self._data.update(other._data)
        self._named.update(other._named)

    def inputs(self, relevant: Mapping[Path, str]) -> tuple[Input, ...]:
        """The files, with the hashes of what is relevant of scripts."""
        scripts = (
            Input(str(script.path), script.sha256, relevant.get(script.path, script.sha256))
            for script in self._scripts.values()
        )
        return tuple({each.path: each for each in (*scripts, *self._inputs, *self._data.values())}.values())

    def ingredients(self) -> tuple[Ingredient, ...]:
        found = [Ingredient(kind, name, value) for (kind, name), value in sorted(self._named.items())]
        for label, lines in self.lines.items():
            kind: Kind = "inline" if label.startswith("-c ") else "file"
            found += [Ingredient(kind, label, value, line) for line, value in _grouped(lines)]
        found += [Ingredient("data_file", label, file.sha256) for label, file in self._data.items()]
        return tuple(found)


def _grouped(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The first statements one by one and later ones in larger and larger groups, so that a long file needs little
    room. The groups do not depend on how many statements follow."""
    found, at, size = lines[:_SINGLE], _SINGLE, _GROUP
    while at < len(lines):
        for _ in range(_SINGLE):
            if group := lines[at : at + size]:
                found.append((group[0][0], digest(*(value for _, value in group))[:_SHORT]))
            at += size
        size *= _GROUP
    return found
