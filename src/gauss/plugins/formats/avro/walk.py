"""A walk over datums that says what is wrong with each: the one authority on which records are good.

| record | meaning |
|---|---|
| ends too early, goes on after its last field, a length below zero, a varint of more than ten bytes | bad_avro |
| a union branch or enum symbol that is not there; a boolean other than 0 and 1 | bad_avro |
| text that is not UTF-8 | bad_utf8 |
| an int beyond 32 bits; a date, time or timestamp outside the years 1 to 9999 | out_of_range |
| a decimal of more digits than declared | out_of_range |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.avro.schema import AvroType
from gauss.plugins.formats.compiled import Walk, utf8_end

KINDS = (
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    *("fixed", "enum", "record", "array", "map", "union", "decimal"),
)
WIDTH = 5
DEPTH = 64
WRONG = (
    ("", ""),
    ("bad_avro", "ends too early"),
    ("bad_avro", "a varint of more than ten bytes"),
    ("bad_utf8", "text is not UTF-8"),
    ("bad_avro", "a union branch that is not there"),
    ("bad_avro", "an enum symbol that is not there"),
    ("bad_avro", "a boolean that is neither 0 nor 1"),
    ("bad_avro", "goes on after its last field"),
    ("out_of_range", "a number outside its type"),
    ("bad_avro", "more elements than bytes"),
    ("bad_avro", "nested too deep"),
    ("bad_avro", "a length below zero"),
)


def read_long(data: Any, position: int, end: int) -> tuple[int, int]:
    """(value, where it ends); the end is -1 when the bytes end first, -2 when there are too many."""
    value = 0
    for place in range(10):
        if position >= end:
            return 0, -1
        byte = data[position] & 255
        position += 1
        if place == 9 and byte > 1:
            return 0, -2
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
    return 0, -2


def walk(  # noqa: PLR0917
    data: Any,
    offsets: Any,
    counts: Any,
    nodes: Any,
    children: Any,
    lows: Any,
    highs: Any,
    stack: Any,
    left: Any,
    verdicts: Any,
    odd: Any,
) -> None:
    """A verdict per record of so many datums; `odd` are good ones that not every reader knows."""
    for record in range(len(offsets) - 1):
        position, end = offsets[record], offsets[record + 1]
        wrong = 0
        datums = counts[record]
        while datums > 0 and wrong == 0:
            datums -= 1
            level = 0
            stack[0], left[0] = 0, 0
            while level >= 0 and wrong == 0:
                node = stack[level]
                base = node * 5
                kind = nodes[base]
                if kind == 10:
                    if left[level] == nodes[base + 2]:
                        level -= 1
                        continue
                    current = children[nodes[base + 1] + left[level]]
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
                        if count < 0 or count > end - position + 100000:
                            wrong = 9
                            break
                        left[level] = count
                    left[level] -= 1
                    if kind == 12:
                        length, position = read_long(data, position, end)
                        if position < 0:
                            wrong = -position
                        elif length < 0:
                            wrong = 11
                        elif length > end - position:
                            wrong = 1
                        else:
                            position = utf8_end(data, position, position + length)
                            wrong = 3 if position < 0 else 0
                        if wrong != 0:
                            break
                    current = children[nodes[base + 1]]
                base = current * 5
                kind = nodes[base]
                while kind == 13 and wrong == 0:
                    branch, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif branch < 0 or branch >= nodes[base + 2]:
                        wrong = 4
                    else:
                        current = children[nodes[base + 1] + branch]
                        base = current * 5
                        kind = nodes[base]
                if wrong != 0 or kind == 0:
                    continue
                if kind == 1:
                    if position >= end:
                        wrong = 1
                    elif (data[position] & 255) > 1:
                        wrong = 6
                    position += 1
                elif kind in (2, 3):
                    value, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif value < lows[current] or value > highs[current]:
                        wrong = 8
                elif kind in (4, 5, 8):
                    start = position
                    position += nodes[base + 3]
                    wrong = 1 if position > end else 0
                    if wrong == 0 and nodes[base + 4] < 0:
                        odd[record] = 1
                    elif wrong == 0 and nodes[base + 4] > 0:
                        # A decimal: what is more than its sign before the bytes that always fit is weighed.
                        fitting = position - nodes[base + 4]
                        sign = 255 if (data[fitting] & 128) else 0
                        for place in range(start, fitting):
                            if (data[place] & 255) != sign:
                                odd[record] = 1
                elif kind in (6, 7, 14):
                    length, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif length < 0:
                        wrong = 11
                    elif length > end - position:
                        wrong = 1
                    elif kind == 7:
                        position = utf8_end(data, position, position + length)
                        wrong = 3 if position < 0 else 0
                    else:
                        if kind == 14 and (length > nodes[base + 3] or length == 0):
                            odd[record] = 1
                        position += length
                elif kind == 9:
                    value, position = read_long(data, position, end)
                    if position < 0:
                        wrong = -position
                    elif value < 0 or value >= nodes[base + 3]:
                        wrong = 5
                else:
                    level += 1
                    if level >= 64:
                        wrong = 10
                    else:
                        stack[level], left[level] = current, 0
        if wrong == 0 and position != end:
            wrong = 7
        verdicts[record] = wrong


_walk = Walk(walk, read_long, utf8_end)


class Walker:
    """The walk over datums of one schema."""

    def __init__(self, root: AvroType) -> None:
        self._nodes: list[int] = []
        self._children: list[int] = []
        self._bounds: list[tuple[int, int]] = []
        self._place(root)
        self._arrays = [np.array(part, np.int64) for part in self._parts()]

    def _parts(self) -> list[list[int]]:
        lows, highs = [low for low, _ in self._bounds], [high for _, high in self._bounds]
        return [self._nodes, self._children, lows, highs]

    def _place(self, node: AvroType) -> int:
        number = len(self._bounds)
        safe, kind, size = 0, node.kind, {"float": 4, "double": 8}.get(node.kind, node.size)
        if node.logical == "decimal":
            # As many bytes as hold no more digits than declared: what is longer is weighed.
            safe = max((n for n in range(1, 17) if 2 ** (8 * n - 1) <= 10**node.precision), default=0)
            kind, size = ("decimal", safe) if node.kind == "bytes" else ("fixed", node.size)
            safe = min(safe, node.size) or -1  # not even one byte always fits two digits
        elif node.kind == "enum":
            size = len(node.symbols)
        self._bounds.append(node.bounds() if node.kind in ("int", "long") else (0, 0))
        self._nodes += [KINDS.index(kind), 0, len(node.children), size, safe]
        placed = [self._place(child) for child in node.children]
        self._nodes[number * WIDTH + 1] = len(self._children)
        self._children += placed
        return number

    def judge(self, data: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(verdicts, which are odd) of records of so many datums."""
        records = len(offsets) - 1
        function, compiled = _walk.ready(int(counts.sum()), int(offsets[-1] - offsets[0]))
        verdicts, odd = np.zeros(records, np.int64), np.zeros(records, np.uint8)
        if compiled:
            scratch: list[Any] = [np.zeros(DEPTH, np.int64), np.zeros(DEPTH, np.int64)]
            function(data.view(np.int8), offsets, counts, *self._arrays, *scratch, verdicts, odd)
        else:
            start = int(offsets[0])
            text = data[start : int(offsets[-1])].tobytes()
            places = (offsets - start).tolist()
            function(text, places, counts.tolist(), *self._parts(), [0] * DEPTH, [0] * DEPTH, verdicts, odd)
        return verdicts, odd.astype(bool)

    def check(self, body: bytes, count: int = 1) -> None:
        """Raises BadRecord when a record is no good."""
        verdicts, _ = self.judge(np.frombuffer(body, np.uint8), np.array([0, len(body)]), np.array([count]))
        if verdicts[0]:
            raise BadRecord(*WRONG[verdicts[0]])
