"""The position of each key in a TOML text. tomli returns no positions, so the text is scanned a second time.

The text was accepted by tomli, so this scanner reports no errors.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""`("processors", 0, "config", "port")`."""

_BARE_END = set(" \t\r\n=.[]{},#\"'")


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def find_positions(text: str) -> dict[KeyPath, Position]:
    """The first position of each key path. The position of an array element is the start of its value."""
    text = text.replace("\r\n", "\n")
    found = _Scanner(text).document()
    starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]

    def position(index: int) -> Position:
        line = bisect.bisect_right(starts, index)
        return Position(line, index - starts[line - 1] + 1)

    return {path: position(index) for path, index in found.items()}


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {}
        self.array_tables: dict[KeyPath, int] = {}

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip_space()
        while self.at < len(self.text):
            if self.peek() == "[":
                table = self.header()
            else:
                self.key_value(table)
            self.skip_space()
        return self.found

    def header(self) -> KeyPath:
        """Scans `[a.b]` or `[[a.b]]`. The name of an array of tables means its last element."""
        start = self.at
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        keys = self.key()
        self.at = self.text.index("]", self.at) + (2 if double else 1)
        path: KeyPath = ()
        for depth, (name, index) in enumerate(keys):
            path = (*path, name)
            self.found.setdefault(path, index)
            if double and depth == len(keys) - 1:
                self.array_tables[path] = self.array_tables.get(path, -1) + 1
                self.found[(*path, self.array_tables[path])] = start
            if path in self.array_tables:
                path = (*path, self.array_tables[path])
        return path

    def key_value(self, table: KeyPath) -> None:
        path = table
        for name, index in self.key():
            path = (*path, name)
            self.found.setdefault(path, index)
        self.at = self.text.index("=", self.at) + 1
        self.skip_space()
        self.value(path)

    def key(self) -> list[tuple[str, int]]:
        """Scans a dotted key; returns its parts with their positions."""
        parts: list[tuple[str, int]] = []
        while True:
            self.skip_space()
            start = self.at
            if self.peek() in "\"'":
                self.string()
                parts.append((_unquote(self.text[start : self.at]), start))
            else:
                while self.peek() not in _BARE_END:
                    self.at += 1
                parts.append((self.text[start : self.at], start))
            self.skip_space()
            if self.peek() != ".":
                return parts
            self.at += 1

    def value(self, path: KeyPath) -> None:
        char = self.peek()
        if char in "\"'":
            self.string()
        elif char == "[":
            self.elements("]", path)
        elif char == "{":
            self.elements("}", path)
        else:
            # A number, date or boolean, up to a character that can follow a value. A date may contain a space.
            while self.peek() not in "\n,]}#" and self.at < len(self.text):
                self.at += 1

    def elements(self, close: str, path: KeyPath) -> None:
        """Scans the values of an array or the pairs of an inline table."""
        self.at += 1
        count = 0
        self.skip_space()
        while self.peek() != close:
            if close == "]":
                self.found[(*path, count)] = self.at
                self.value((*path, count))
                count += 1
            else:
                self.key_value(path)
            self.skip_space()
            if self.peek() == ",":
                self.at += 1
                self.skip_space()
        self.at += 1

    def string(self) -> None:
        """Moves past a string of any of the four kinds."""
        quote = self.peek()
        if self.text.startswith(quote * 3, self.at):
            self.at += 3
            while not self.text.startswith(quote * 3, self.at):
                self.at += 2 if quote == '"' and self.peek() == "\\" else 1
            self.at += 3
            # Up to two quotes may precede the closing three.
            while self.peek() == quote:
                self.at += 1
            return
        self.at += 1
        while self.peek() != quote:
            self.at += 2 if quote == '"' and self.peek() == "\\" else 1
        self.at += 1

    def skip_space(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char in " \t\r\n":
                self.at += 1
            else:
                return

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else "\n"


def _unquote(quoted: str) -> str:
    """The text of a quoted key, unescaped by tomli."""
    import tomli

    if "\\" not in quoted:
        return quoted[1:-1]
    return str(tomli.loads(f"key = {quoted}")["key"])
