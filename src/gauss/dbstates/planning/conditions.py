"""Branches of \\if in one script."""

from __future__ import annotations

from dataclasses import dataclass

from gauss.dbstates.planning.arguments import Argument
from gauss.dbstates.planning.scanner import Scanner, Slash
from gauss.dbstates.planning.state import State
from gauss.dbstates.planning.variables import Unknown, boolean


@dataclass
class _Branch:
    taken: bool | None
    """None: it is not known before the script runs."""
    ignored: bool
    """Whether the whole \\if stands in a branch that is not taken."""
    saved: tuple[int, int]
    since: int
    ever: bool | None
    """Whether a branch of this \\if has been taken."""
    last: bool = False
    """Whether this is the branch of \\else."""


class Conditions:
    """The \\if that are open. In a branch that may be taken everything is followed, and the values of variables that it
    sets are unknown afterwards."""

    def __init__(self, state: State, scanner: Scanner) -> None:
        self._state, self._scanner = state, scanner
        self._open: list[_Branch] = []

    @property
    def open(self) -> bool:
        return bool(self._open)

    def follow(self, slash: Slash, arguments: list[Argument], end: int) -> None:
        """Follows \\if, \\elif, \\else or \\endif, which ends at an offset."""
        if slash.name == "if":
            ignored = not self._scanner.active
            first = False if ignored else self._value(arguments)
            self._enter(_Branch(first, ignored, self._scanner.saved(), end, first), slash, end)
            return
        if not self._open:
            self._state.refuse(f"\\{slash.name} without \\if")
        branch = self._open.pop()
        self._leave(branch, slash)
        if slash.name == "endif":
            self._activate()
            self._scanner.remove(slash.start, end)
            return
        if branch.last:
            self._state.refuse(f"\\{slash.name} after \\else")
        taken: bool | None = False
        if not branch.ignored and branch.ever is not True:
            self._activate()
            value = True if slash.name == "else" else self._value(arguments)
            taken = value if branch.ever is False or value is False else None
        ever = True if taken else (None if taken is None else branch.ever)
        self._enter(_Branch(taken, branch.ignored, self._scanner.saved(), end, ever, slash.name == "else"), slash, end)

    def _enter(self, branch: _Branch, slash: Slash, end: int) -> None:
        if branch.taken is None:
            if not self._scanner.idle:
                self._state.refuse(
                    f"\\{slash.name} inside a statement depends on a value that is only known while the script runs",
                    "write the statement once in each branch",
                )
            self._state.maybe += 1
            self._state.session.leave("a condition")
        self._scanner.remove(slash.start, end)
        self._open.append(branch)
        self._activate()

    def _leave(self, branch: _Branch, slash: Slash) -> None:
        if branch.taken is None:
            if not self._scanner.idle:
                self._state.refuse(
                    f"a statement goes on behind \\{slash.name}, and it is not known before the script runs whether",
                    "end the statement in the branch in which it begins",
                )
            self._state.maybe -= 1
        elif not branch.taken and not branch.ignored:
            self._scanner.restore(branch.saved, branch.since, slash.start)

    def _activate(self) -> None:
        self._scanner.active = all(each.taken is not False for each in self._open)

    def _value(self, arguments: list[Argument]) -> bool | None:
        if not arguments:
            self._state.refuse("expected a value after \\if or \\elif")
        values = [each.value for each in arguments]
        if any(isinstance(each, Unknown) for each in values):
            return None
        return boolean(b" ".join(each for each in values if not isinstance(each, Unknown)))
