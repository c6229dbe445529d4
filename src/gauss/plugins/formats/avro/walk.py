"""A walk over datums that returns a verdict for each: it alone decides which records are good.

| record | meaning |
|---|---|
| ends too early, goes on after its last field, a length below zero, a varint of more than ten bytes | bad_avro |
| a union branch or enum symbol that does not exist; a boolean other than 0 and 1 | bad_avro |
| text that is not UTF-8 | bad_utf8 |
| an int beyond 32 bits; a date, time or timestamp outside the years 1 to 9999 | out_of_range |
| a decimal of more digits than declared | out_of_range |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.avro.schema import AvroType
from gauss.plugins.formats.literals import utf8_end
from gauss.plugins.formats.walk_function import WalkFunction

KINDS = (
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    *("fixed", "enum", "record", "array", "map", "union", "decimal"),
)
NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, RECORD, ARRAY, MAP, UNION, DECIMAL = range(
    len(KINDS)
)
MAX_DEPTH = 64
MAX_EMPTY_ELEMENTS = 100_000
"""An array may have this many elements more than bytes: elements of null take none."""

VERDICTS = (
    ("", ""),
    ("bad_avro", "ends too early"),
    ("bad_avro", "a varint of more than ten bytes"),
    ("bad_utf8", "text is not UTF-8"),
    ("bad_avro", "a union branch that does not exist"),
    ("bad_avro", "an enum symbol that does not exist"),
    ("bad_avro", "a boolean that is neither 0 nor 1"),
    ("bad_avro", "goes on after its last field"),
    ("out_of_range", "a number outside its type"),
    ("bad_avro", "more elements than bytes"),
    ("bad_avro", "nested too deep"),
    ("bad_avro", "a length below zero"),
)
FINE, TRUNCATED, LONG_VARINT, NOT_UTF8, NO_BRANCH, NO_SYMBOL, NOT_BOOLEAN = range(7)
TRAILING_BYTES, OUT_OF_RANGE, TOO_MANY_ELEMENTS, TOO_DEEP, NEGATIVE_LENGTH = range(7, len(VERDICTS))

Ints = np.ndarray | list[int]
"""Arrays for machine code, lists for plain Python."""


class AvroNodes(NamedTuple):
    """The types of a schema, each with a number."""

    children: Ints
    kinds: Ints
    first: Ints
    """By type: where its children begin in `children`."""
    counts: Ints
    """By type: how many children it has."""
    sizes: Ints
    """By type: bytes of a fixed, float or double; symbols of an enum; bytes of a decimal that always fit."""
    fitting: Ints
    """By type: how many bytes at the end of a fixed decimal always fit; -1 for none, 0 if it is no decimal."""
    lows: Ints
    highs: Ints


class AvroWalk(NamedTuple):
    """The argument of `walk`."""

    data: np.ndarray | bytes
    """Signed bytes for machine code, in which unsigned ones would become floats; hence `& 255`."""
    offsets: Ints
    counts: Ints
    """By record: how many datums it has."""
    nodes: AvroNodes
    stack: Ints
    """By level: the type of the record, array or map that is open."""
    left: Ints
    """By level: the next field of a record, or how many elements of the block are still to come."""
    verdicts: np.ndarray
    """By record: an index of VERDICTS."""
    odd: np.ndarray
    """By record: 1 for a good one that not every reader can read."""


def read_long(data: Any, position: int, end: int) -> tuple[int, int]:
    """(value, where it ends); instead of the end, -TRUNCATED or -LONG_VARINT."""
    value = 0
    for place in range(10):
        if position >= end:
            return 0, -TRUNCATED
        byte = data[position] & 255
        position += 1
        if place == 9 and byte > 1:
            return 0, -LONG_VARINT
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
    return 0, -LONG_VARINT


def walk(batch: AvroWalk) -> None:
    """Sets the verdict of each record, and whether it is odd."""
    data, offsets, nodes, odd = batch.data, batch.offsets, batch.nodes, batch.odd
    kinds, first, children, stack, left = nodes.kinds, nodes.first, nodes.children, batch.stack, batch.left
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        wrong = FINE
        datums = batch.counts[record]
        while datums > 0 and wrong == FINE:
            datums -= 1
            level = 0
            stack[0], left[0] = 0, 0
            while level >= 0 and wrong == FINE:
                node = stack[level]
                kind = kinds[node]
                if kind == RECORD:
                    if left[level] == nodes.counts[node]:
                        level -= 1
                        continue
                    current = children[first[node] + left[level]]
                    left[level] += 1
                else:
                    if left[level] == 0:
                        count, position = read_long(data, position, end)
                        if position >= 0 and count < 0:
                            odd[record] = 1
                            count = -count
                            _, position = read_long(data, position, end)
                        if position < 0:
                            wrong = -position
                            break
                        if count == 0:
                            level -= 1
                            continue
                        if count < 0 or count > end - position + MAX_EMPTY_ELEMENTS:
                            wrong = TOO_MANY_ELEMENTS
                            break
                        left[level] = count
                    left[level] -= 1
                    if kind == MAP:
                        length, position = read_long(data, position, end)
                        if position < 0:
                            wrong = -position
                        elif length < 0:
                            wrong = NEGATIVE_LENGTH
                        elif length > end - position:
                            wrong = TRUNCATED
                        else:
                            position = utf8_end(data, position, position + length)
                            wrong = NOT_UTF8 if position < 0 else FINE
                        if wrong != FINE:
                            break
                    current = children[first[node]]
                kind = kinds[current]
                while kind == UNION and wrong == FINE:
                    branch, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif branch < 0 or branch >= nodes.counts[current]:
                        wrong = NO_BRANCH
                    else:
                        current = children[first[current] + branch]
                        kind = kinds[current]
                if wrong != FINE or kind == NULL:
                    continue
                if kind == BOOLEAN:
                    if position >= end:
                        wrong = TRUNCATED
                    elif (data[position] & 255) > 1:
                        wrong = NOT_BOOLEAN
                    position += 1
                elif kind in (INT, LONG):
                    value, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif value < nodes.lows[current] or value > nodes.highs[current]:
                        wrong = OUT_OF_RANGE
                elif kind in (FLOAT, DOUBLE, FIXED):
                    start = position
                    position += nodes.sizes[current]
                    wrong = TRUNCATED if position > end else FINE
                    fitting = nodes.fitting[current]
                    if wrong == FINE and fitting < 0:
                        odd[record] = 1
                    elif wrong == FINE and fitting > 0:
                        # A decimal: the bytes before those that always fit must only extend the sign.
                        sign = 255 if (data[position - fitting] & 128) else 0
                        for place in range(start, position - fitting):
                            if (data[place] & 255) != sign:
                                odd[record] = 1
                elif kind in (BYTES, STRING, DECIMAL):
                    length, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif length < 0:
                        wrong = NEGATIVE_LENGTH
                    elif length > end - position:
                        wrong = TRUNCATED
                    elif kind == STRING:
                        position = utf8_end(data, position, position + length)
                        wrong = NOT_UTF8 if position < 0 else FINE
                    else:
                        if kind == DECIMAL and (length > nodes.sizes[current] or length == 0):
                            odd[record] = 1
                        position += length
                elif kind == ENUM:
                    value, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif value < 0 or value >= nodes.sizes[current]:
                        wrong = NO_SYMBOL
                else:
                    level += 1
                    if level >= MAX_DEPTH:
                        wrong = TOO_DEEP
                    else:
                        stack[level], left[level] = current, 0
        if wrong == FINE and position != end:
            wrong = TRAILING_BYTES
        batch.verdicts[record] = wrong


WALK = WalkFunction(walk, read_long, utf8_end)


class DatumChecker:
    """Checks datums of one schema with the walk."""

    def __init__(self, root: AvroType) -> None:
        rows: list[list[int]] = []
        children: list[int] = []
        _add(root, rows, children)
        self._lists = AvroNodes(children, *([row[part] for row in rows] for part in range(len(rows[0]))))
        self._arrays = AvroNodes(*(np.array(part, np.int64) for part in self._lists))

    def judge(self, data: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(verdicts, which records are odd) of records with `counts` datums each."""
        records = len(offsets) - 1
        function, compiled = WALK.ready(int(counts.sum()), int(offsets[-1] - offsets[0]))
        verdicts, odd = np.zeros(records, np.int64), np.zeros(records, np.uint8)
        if compiled:
            stack, left = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
            function(AvroWalk(data.view(np.int8), offsets, counts, self._arrays, stack, left, verdicts, odd))
        else:
            start = int(offsets[0])
            text, places = data[start : int(offsets[-1])].tobytes(), (offsets - start).tolist()
            stacks = [0] * MAX_DEPTH, [0] * MAX_DEPTH
            function(AvroWalk(text, places, counts.tolist(), self._lists, *stacks, verdicts, odd))
        return verdicts, odd.astype(bool)

    def check(self, body: bytes, count: int = 1) -> None:
        """Raises BadRecord unless the record is good."""
        verdicts, _ = self.judge(np.frombuffer(body, np.uint8), np.array([0, len(body)]), np.array([count]))
        if verdicts[0]:
            raise BadRecord(*VERDICTS[verdicts[0]])


def _add(node: AvroType, rows: list[list[int]], children: list[int]) -> int:
    """Adds a type and those inside it, each a row of the arrays of AvroNodes; returns its number."""
    kind, fitting, size = node.kind, 0, {"float": 4, "double": 8}.get(node.kind, node.size)
    if node.logical == "decimal":
        # As many bytes as never hold more digits than declared; longer values are checked one by one.
        safe = max((n for n in range(1, 17) if 2 ** (8 * n - 1) <= 10**node.precision), default=0)
        kind, size = ("decimal", safe) if node.kind == "bytes" else ("fixed", node.size)
        fitting = min(safe, node.size) or -1  # one byte may exceed a single digit
    elif node.kind == "enum":
        size = len(node.symbols)
    number = len(rows)
    low, high = node.bounds() if node.kind in ("int", "long") else (0, 0)
    row = [KINDS.index(kind), 0, len(node.children), size, fitting, low, high]
    rows.append(row)
    added = [_add(child, rows, children) for child in node.children]
    row[1] = len(children)
    children += added
    return number
