"""Every kind of program in every output with its expected result, for the conformance tests of scans."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import msgspec

from gauss.contracts.cursor import Capabilities, Code, Output, Program, Step
from gauss.scan.program.parse import parse_scan
from helpers.scan_items import decode_item
from helpers.scan_worlds import PROVIDERS, Row, Slot, World

Made = Callable[[list[Row]], list[Row]]
"""Returns the rows of a program for the candidates of a root."""
Answer = tuple[Code, Code, bytes, int]
"""Codes of `next` and `read`, the blob, and the fuel used so far."""


def _docs(candidates: list[Row]) -> list[Row]:
    return [msgspec.json.decode(row["data"]) for row in candidates]


def _staged(candidates: list[Row]) -> list[Row]:
    return [{"k": doc["k"], "n": doc["n"]} for doc in _docs(candidates) if doc["symbol"] != "ETH"]


def _aggregated(candidates: list[Row]) -> list[Row]:
    docs = _docs(candidates)
    numbers = [doc["n"] for doc in docs]
    total = sum(numbers) if numbers else None
    return [{"rows": len(docs), "total": total, "high": max((doc["bid"] for doc in docs), default=None)}]


KINDS: dict[str, tuple[str, Made]] = {
    "plain": ("seq", lambda candidates: candidates),
    "staged": ('seq | select(.symbol != "ETH") | {k, n}', _staged),
    "agg": ("agg(rows: count, total: sum(.n), high: max(.bid))", _aggregated),
}
SCALARS: dict[str, tuple[str, Made]] = {
    "staged": ("seq | .n", lambda candidates: [{"value": doc["n"]} for doc in _docs(candidates)]),
    "agg": ("agg(rows: count) | .rows", lambda candidates: [{"value": len(candidates)}]),
}
OUTPUTS = {
    "plain": (Output.ROWS, Output.COLUMNAR, Output.CHUNKS),
    "staged": (Output.ROWS, Output.COLUMNAR, Output.SCALAR),
    "agg": (Output.ROWS, Output.COLUMNAR, Output.SCALAR),
}
CASES = [(kind, output) for kind, outputs in OUTPUTS.items() for output in outputs]
NO_CHUNKS = ("reference", "table")
"""Providers that do not support `offset_len`."""


def cases(providers: tuple[str, ...] = PROVIDERS) -> list[tuple[str, str, Output]]:
    """All supported combinations of (provider, kind, output)."""
    return [
        (provider, kind, output)
        for provider in providers
        for kind, output in CASES
        if not (output is Output.CHUNKS and provider in NO_CHUNKS)
    ]


def case_name(case: tuple[str, str, Output]) -> str:
    provider, kind, output = case
    return f"{provider}-{kind}-{output.value}"


class Case:
    """A program of one kind in one output over one world."""

    def __init__(self, world: World, kind: str, output: Output) -> None:
        self.world, self.kind, self.output = world, kind, output
        text, self._made = SCALARS[kind] if output is Output.SCALAR else KINDS[kind]
        self.program: Program = parse_scan(text, output=output)

    @property
    def live(self) -> Program:
        return parse_scan(self.program.text, output=self.output, live=True)

    def expected(self, version: int | None = None) -> list[Row]:
        """The expected rows for Root(version)."""
        return self._made(self.world.fold(version))

    def of(self, candidates: list[Row]) -> list[Row]:
        """The expected rows for these candidates."""
        return self._made(candidates)

    def open(self, program: Program | None = None, **options: Any) -> Slot:
        return self.world.read(program or self.program, **options)

    def limit(self, **changes: Any) -> Capabilities:
        """Changes the capabilities of the source."""
        world = self.world
        world.source.capabilities = dataclasses.replace(world.source.capabilities, **changes)
        world.provider.capabilities = world.source.capabilities
        return world.source.capabilities

    def rows(self, blob: bytes) -> list[Row]:
        """The rows of a blob."""
        found = decode_item(self.output, blob)
        match self.output:
            case Output.ROWS:
                return list(found)
            case Output.COLUMNAR:
                return list(found.to_pylist())
            case Output.SCALAR:
                return [{"value": value} for value in found]
        rows: list[Row] = []
        for offset, count, stamp, lengths, data in found:
            assert count == len(lengths)
            times, at = [stamp] * count if isinstance(stamp, int) else stamp, 0
            for index, length in enumerate(lengths):
                rows.append({"offset": offset + index, "ts_ms": times[index], "data": data[at : at + length]})
                at += length
        return rows

    def size(self, row: Row) -> int:
        """The size of a row in bytes, as batch limits count it."""
        if self.output is Output.CHUNKS:
            return len(row["data"])
        return sum(len(_bytes(value)) if isinstance(value, str | bytes) else _width(value) for value in row.values())

    def drained(self, slot: Slot, step: Step, most: int = 10_000) -> list[Row]:
        """All rows from the cursor's position to the end, decoded from blobs."""
        found: list[Row] = []
        for _ in range(most):
            code = slot.task.next(slot.number, step)
            if code is not Code.OK:
                assert code is Code.INVALID, code
                return found
            found += self.rows(slot.blob()[1])
        raise AssertionError(f"no end after {most} steps")

    def answers(self, steps: list[Step], program: Program | None = None) -> list[Answer]:
        """The answers of a new cursor to some steps."""
        slot = self.open(program)
        handle = slot.task.handle(slot.number)
        assert handle is not None
        executor = self.world.source.executor(handle.cursor_id)
        found = []
        for step in steps:
            code = slot.task.next(slot.number, step)
            found.append((code, *slot.blob(), executor.fuel))
        slot.task.done()
        return found


def fuel(case: Case, slot: Slot) -> int:
    """The fuel that a cursor has used so far."""
    handle = slot.task.handle(slot.number)
    assert handle is not None
    return case.world.source.executor(handle.cursor_id).fuel


@functools.singledispatch
def _bytes(value: Any) -> bytes:
    return bytes(value)


@_bytes.register
def _(value: str) -> bytes:
    return value.encode()


def _width(value: Any) -> int:
    return 1 if isinstance(value, bool) else 8
