"""A cache of decoded columns per page, for scans that read the same fields."""

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
"""Seconds that decoded columns are kept after the last scan."""

FEW = 8
"""A read of less than 1/FEW of a page does not decode the rest of the page."""


class _Columns:
    """The decoded fields of one page, together no larger than the page itself."""

    __slots__ = ("by_field", "data", "limit", "page", "whole")

    def __init__(self, page: pa.RecordBatch, gone: Callable[[_Columns], None]) -> None:
        self.page = weakref.ref(page, lambda _: gone(self))
        self.data = _place(page.column(DATA))
        self.limit = page.nbytes
        self.by_field: dict[str, pa.Array] = {}
        self.whole = True
        """Whether every record of the page so far has decoded to one row."""


def _place(data: pa.BinaryArray) -> tuple[int, int, int]:
    """The address of an array's memory and its slice of it."""
    _, offsets, values = data.buffers()
    if values is None or offsets is None or not values.size:
        return 0, 0, 0
    return int(values.address), int(data.offset), len(data)


_PLACES = np.arange(PAGE_ROWS)
_PLACES.setflags(write=False)  # shared: callers get slices of it


def _labels(fields: pa.Schema) -> dict[str, pa.Field]:
    return {f"{field.name} {field.type} {field.metadata}": field for field in fields}


class DecodedColumns:
    """A format that caches the decoded columns of table pages."""

    def __init__(self, format_: Format) -> None:
        self._format = format_
        self._known: dict[int, _Columns] = {}
        self._used = time.monotonic()
        self._asked: tuple[pa.Schema | None, dict[str, pa.Field]] = None, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._format, name)

    def watch(self, run: Run) -> None:
        """Enables caching for the pages of this run, which stay for a while."""
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
        """Drops columns that no scan has used for a while."""
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
        if last[0] is not fields:  # a scan requests the same fields of every page
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
