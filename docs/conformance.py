"""Writes docs/scan-conformance.md from the scan engine's clauses and the tests that are named for them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests" / "scan" / "conformance"
PAGE = Path(__file__).parent / "scan-conformance.md"
PROVIDERS = ("reference", "memory", "file", "rolled", "table")
OPENING = """<!-- Written by docs/conformance.py from tests/scan/conformance: change those, then run `make docs`. -->

# The scan engine's clauses

Every read in Gauss is a cursor of the scan engine (ZeroBus Scan Engine v1.2.1). Each clause of its contract has tests,
which are named by its number and run against every provider that can serve it: `reference` (fifty lines over a Python
list, with which the others are compared), `memory` (the ring), `file` (segments), `rolled` (Arrow files) and `table` (the
newest record per key). `engine` marks what no provider has a part in.

What a program may change is tried on every kind of program, without stages, with stages and `agg`, in every output that
it supports (`test_every_program.py`), and through Flight, HTTP and WebSocket (`tests/scan/test_transports.py`).

Clauses 11.1 and (j) meet in `offset_len`: a batch must not depend on how a log is cut, and records must not be framed
without need. A step that comes as a blob is cut exactly, by records and their bytes without framing, and its blob holds
records without framing: the same for every storage, append portion and restart. A reader in the engine's process that
passes bytes on asks with `fill=False`: it gets chunks as they lie, unframed, cut at their borders; only a chunk above a
limit is framed.

U, P, I, R are the codes unset (success), panic, invalid and rejected; letters are the profile's choices where the
specification is silent.
"""


@dataclass
class Clause:
    """A clause, and the tests that are named for it."""

    name: str
    says: str
    tests: list[str] = field(default_factory=list)
    providers: set[str] = field(default_factory=set)
    failing: list[str] = field(default_factory=list)

    def numbers(self) -> set[str]:
        """`5.1.5/9.3` is two numbers, `13.1–13.3` three."""
        if (spread := re.fullmatch(r"(\d+)\.(\d+)–\1\.(\d+)", self.name)) is not None:
            chapter, first, last = spread.groups()
            return {f"{chapter}.{number}" for number in range(int(first), int(last) + 1)}
        return {part.lower() for part in self.name.split("/")}

    def state(self) -> str:
        if not self.tests:
            return "no test"
        return f"fails: {', '.join(self.failing)}" if self.failing else "holds"


def clauses() -> list[Clause]:
    """Every clause with its tests, in the order of the contract."""
    text = (TESTS / "clauses.md").read_text(encoding="utf-8")
    found = [
        Clause(name, " ".join(says.split()))
        for name, says in re.findall(r"(?ms)^- \*\*(.+?)\*\* (.+?)(?=^- |\Z)", text)
    ]
    by_number = {number: clause for clause in found for number in clause.numbers()}
    for file in sorted(TESTS.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for number in numbers_of(node.name):
                    if number not in by_number:
                        raise SystemExit(f"{file.name}: {node.name} is named for clause {number}, which there is not")
                    _add(by_number[number], node)
    return found


def numbers_of(test: str) -> list[str]:
    """The clauses that a test's name begins with: `test_5_1_5_and_9_3_…`, `test_zrk_…`, `test_a_…`."""
    name = test.removeprefix("test_")
    if (letter := re.match(r"(zrk|[a-k])_", name)) is not None:
        return [letter[1]]
    head = re.match(r"\d+(?:_\d+)*(?:_and_\d+(?:_\d+)*)*", name)
    return [] if head is None else [part.replace("_", ".") for part in head[0].split("_and_")]


def _add(clause: Clause, node: ast.FunctionDef) -> None:
    if node.name in clause.tests:
        return
    clause.tests.append(node.name)
    marks = {
        call.func.attr: call
        for call in node.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    }
    if "providers" in marks:
        clause.providers |= {
            argument.value for argument in marks["providers"].args if isinstance(argument, ast.Constant)
        }
    else:
        over_providers = any(argument.arg in ("world", "case") for argument in node.args.args)
        clause.providers |= set(PROVIDERS) if over_providers else {"engine"}
    if marks.keys() & {"xfail", "skip", "skipif"}:
        clause.failing.append(node.name)


def page() -> str:
    """The page's text."""
    found = clauses()
    holding = sum(clause.state() == "holds" for clause in found)
    lines = [
        OPENING,
        f"{holding} of {len(found)} clauses hold.\n",
        "| clause | what it says | providers | tests | state |",
        "|---|---|---|---|---|",
    ]
    for clause in found:
        providers = ", ".join(name for name in (*PROVIDERS, "engine") if name in clause.providers)
        says = clause.says.replace("|", "\\|")
        lines.append(f"| {clause.name} | {says} | {providers} | {len(clause.tests)} | {clause.state()} |")
    return "\n".join(lines) + "\n"
