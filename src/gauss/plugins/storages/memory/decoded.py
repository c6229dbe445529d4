"""Decoded columns, kept beside the pages they come from: the next scan that reads the same fields decodes nothing."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.format import Decoded, Format
from gauss.plugins.storages.memory.runs import DATA, PAGE_ROWS, Run

IDLE_SECONDS = 10.0
"""So long after the last scan decoded columns are kept."""

FEW = 8
"""Fewer records than this part of a page do not have the rest of it decoded."""


class _Columns:
    """The decoded fields of one page, together no larger than the page itself."""

    __slots__ = ("by_field", "data", "limit", "page", "whole")

    def __init__(self, page: pa.RecordBatch, gone: Callable[[_Columns], None]) -> None:
        self.page = weakref.ref(page, lambda _: gone(self))
        self.data = _place(page.column(DATA))
        self.limit = page.nbytes
        self.by_field: dict[str, pa.Array] = {}
        self.whole = True
        """Whether each record of the page has given one row so far."""


def _place(data: pa.BinaryArray) -> tuple[int, int, int]:
    """Where an array lies in memory, and which part of that it is."""
    _, offsets, values = data.buffers()
    if values is None or offsets is None or not values.size:
        return 0, 0, 0
    return int(values.address), int(data.offset), len(data)


_PLACES = np.arange(PAGE_ROWS)
_PLACES.setflags(write=False)  # everybody gets a part of it


def _labels(fields: pa.Schema) -> dict[str, pa.Field]:
    return {f"{field.name} {field.type} {field.metadata}": field for field in fields}


class DecodedColumns:
    """A format that remembers what it decoded of the pages of a table; of anything else it remembers nothing."""

    def __init__(self, format_: Format) -> None:
        self._format = format_
        self._known: dict[int, _Columns] = {}
        self._used = time.monotonic()
        self._asked: tuple[pa.Schema | None, dict[str, pa.Field]] = None, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._format, name)

    def watch(self, run: Run) -> None:
        """Pages of this run stay for a while: what is decoded of them is worth keeping."""
        for page in run.pages():
            address = _place(page.column(DATA))[0]
            known = self._known.get(address)
            if address and (known is None or known.page() is not page):
                self._known[address] = _Columns(page, self._forget)

    def _forget(self, columns: _Columns) -> None:
        address = columns.data[0]
        if self._known.get(address) is columns:
            del self._known[address]

    def release(self) -> None:
        """Lets go what no scan has used for a while."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            for columns in tuple(self._known.values()):
                columns.by_field = {}

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        self._used = time.monotonic()
        address, offset, count = _place(data)
        columns = self._known.get(address)
        page = columns.page() if columns is not None else None
        if columns is None or page is None or not columns.whole:
            return self._format.decode_batch(data, fields)
        start = offset - columns.data[1]
        if start < 0 or start + count > columns.data[2]:
            return self._format.decode_batch(data, fields)
        last = self._asked
        if last[0] is not fields:  # a scan asks for the same of every page
            self._asked = last = fields, _labels(fields)
        labels, held = last[1], columns.by_field
        missing = {label: labels[label] for label in labels if label not in held}
        if missing and FEW * count < columns.data[2]:
            return self._format.decode_batch(data, fields)
        if missing:
            rows, _, bad, spread = self._format.decode_batch(page.column(DATA), pa.schema(list(missing.values())))
            if bad or spread:
                columns.whole = False
                return self._format.decode_batch(data, fields)
            found = dict(zip(missing, rows.columns, strict=True))
            held = {**held, **found}
            fits = sum(column.nbytes for column in held.values()) <= columns.limit
            columns.by_field = held if fits else found
        made = [held[label].slice(start, count) for label in labels]
        good = _PLACES[:count] if count <= len(_PLACES) else np.arange(count)
        return Decoded(pa.RecordBatch.from_arrays(made, names=fields.names), good, [])
