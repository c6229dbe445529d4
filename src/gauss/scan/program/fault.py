"""Errors of a program with their position in its text, and the size limits of programs."""

from __future__ import annotations

from collections.abc import Sequence

from gauss.contracts.expression import (
    MAX_DEPTH,
    MAX_NAMES,
    MAX_NODES,
    MAX_SIZE,
    MAX_STAGES,
    Make,
    Path,
    Stage,
    Value,
    children,
    expressions,
    walk,
)
from gauss.model.errors import ConfigError

_SHOWN = 100
"""Maximum number of characters shown on each side of the position."""


class ProgramFault(ConfigError):
    """A program cannot be parsed or bound. `at` is the index of the character at fault."""

    def __init__(self, message: str, *, at: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.at = at


def fault(text: str, at: int, message: str, hint: str = "") -> ProgramFault:
    """An error that shows the line and a caret under the position, or only the position if there is no text."""
    at = min(at, len(text)) if text else at
    message = f"{message} (at character {at + 1})"
    if not text:
        return ProgramFault(message, at=at, hint=hint)
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[begin : end if end >= 0 else len(text)].replace("\t", " ")
    column = at - begin
    if column > _SHOWN:
        line, column = "…" + line[column - _SHOWN // 2 :], _SHOWN // 2 + 1
    if len(line) > column + _SHOWN:
        line = line[: column + _SHOWN] + "…"
    return ProgramFault(f"{message}\n  {line}\n  {' ' * column}^", at=at, hint=hint)


def bounded(stages: Sequence[Stage], text: str) -> None:
    """Raises if a program exceeds the size limits, which bound the recursion of everything that reads it later.

    Depth and size include columns of earlier stages, counted each time they are read.
    """
    if len(stages) > MAX_STAGES:
        raise fault(text, stages[MAX_STAGES].at, f"more than {MAX_STAGES} stages", "make the program shorter")
    count = 0
    made: dict[str, tuple[int, int]] = {}
    for stage in stages:
        extents: list[tuple[int, int]] = []
        for root in expressions(stage):
            depth, size = 0, 0
            waiting = [(root, 1)]
            while waiting:
                node, level = waiting.pop()
                below, within = made.get(node.name, (0, 0)) if isinstance(node, Path) else (0, 0)
                count, size, depth = count + 1, size + 1 + within, max(depth, level + below)
                if depth > MAX_DEPTH:
                    raise fault(text, node.at, f"nested deeper than {MAX_DEPTH} levels", "make it simpler")
                if count > MAX_NODES:
                    raise fault(text, node.at, f"more than {MAX_NODES} operations", "make the program shorter")
                if size > MAX_SIZE:
                    message = f"more than {MAX_SIZE} operations, with those of the columns it reads"
                    raise fault(text, node.at, message, "read a column of an earlier stage less often")
                waiting.extend((child, level + 1) for child in children(node))
            extents.append((depth, size))
        if isinstance(stage, Make):
            made = dict(zip((name for name, _ in stage.columns), extents, strict=True))
        elif isinstance(stage, Value):
            made = {"": extents[0]}
    names = {
        node.name for stage in stages for root in expressions(stage) for node in walk(root) if isinstance(node, Path)
    }
    if len(names) > MAX_NAMES:
        raise ConfigError(f"a program may read {MAX_NAMES} fields (got {len(names)})", hint="read fewer")
