"""Why a step is not cached: the first difference from a step that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from gauss.dbstates.planning.plan import Ingredient, Kind

_WORDS: dict[Kind, str] = {
    "variable": "variable",
    "flag": "option",
    "setting": "server setting",
    "environment": "environment variable",
    "data_file": "data file",
    "server": "server",
    "extension": "extension",
    "tool": "tool",
}


@dataclass(frozen=True)
class Difference:
    """One ingredient that is not the same."""

    kind: Kind
    name: str
    change: str
    """added, removed or changed."""
    line: int | None = None

    def __str__(self) -> str:
        if self.kind in ("file", "inline"):
            where = self.name if self.line is None else f"{self.name}:{self.line}"
            return f"{where} was {self.change}"
        return f"{_WORDS[self.kind]} {self.name} was {self.change}"


def explain(old: Sequence[Ingredient], new: Sequence[Ingredient]) -> list[Difference]:
    """The differences of a step from a cached one: what has another value, the first line of each file, and what only
    one of them has, often because of those lines. Empty if the ingredients are the same, as when only the parent state
    or the version of the planner differs."""
    named = _named(old, new)
    changed = [each for each in named if each.change == "changed"]
    return [*changed, *_lines(old, new), *(each for each in named if each.change != "changed")]


def distance(old: Sequence[Ingredient], new: Sequence[Ingredient]) -> int:
    """How many ingredients differ: by it the most similar of several cached steps is found."""
    return len(set(old) ^ set(new))


def _named(old: Sequence[Ingredient], new: Sequence[Ingredient]) -> list[Difference]:
    before, after = ({(each.kind, each.name): each.digest for each in some if each.line is None} for some in (old, new))
    found = []
    for kind, name in sorted(before.keys() | after.keys()):
        if before.get((kind, name)) != after.get((kind, name)):
            found.append(Difference(kind, name, _change((kind, name) in before, (kind, name) in after)))
    return found


def _lines(old: Sequence[Ingredient], new: Sequence[Ingredient]) -> list[Difference]:
    before, after = _by_file(old), _by_file(new)
    found = []
    for kind, name in dict.fromkeys([*after, *before]):
        first, second = before.get((kind, name)), after.get((kind, name))
        if first is None or second is None:
            found.append(Difference(kind, name, _change(first is not None, second is not None)))
            continue
        for was, now in zip_longest(first, second):
            if was is None or now is None or was.digest != now.digest:
                line = now.line if now is not None else was.line
                found.append(Difference(kind, name, _change(was is not None, now is not None), line))
                break
    return found


def _by_file(some: Sequence[Ingredient]) -> dict[tuple[Kind, str], list[Ingredient]]:
    found: dict[tuple[Kind, str], list[Ingredient]] = {}
    for each in some:
        if each.line is not None:
            found.setdefault((each.kind, each.name), []).append(each)
    return found


def _change(before: bool, after: bool) -> str:
    return "changed" if before and after else "added" if after else "removed"
