"""Splits arrays in Postgres' text form, such as `{1,NULL,"a b"}`, into their elements."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN = r'^\{[^"\\{}]*\}$'
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def split_arrays(values: pa.Array, delimiter: str) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    """(number of elements of each array, all elements, which texts are arrays of several dimensions or none). A null
    array has no elements."""
    if pc.all(pc.match_substring_regex(values, _PLAIN), min_count=0).as_py():
        return _split_plain(values, delimiter)
    return _split_quoted(values, delimiter)


def _split_plain(values: pa.Array, delimiter: str) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    """Without quotes, escapes, bounds and inner arrays, all rows at once."""
    inner = pc.utf8_slice_codeunits(values, 1, -1)
    lists = pc.split_pattern(inner, delimiter)
    empty = pc.fill_null(pc.equal(inner, ""), True)
    lists = pc.if_else(empty, pa.scalar(None, lists.type), lists)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = lists.flatten()
    is_null = pc.match_substring_regex(elements, "^(?i:null)$")
    return counts, pc.if_else(is_null, pa.scalar(None, pa.string()), elements), np.zeros(len(values), bool)


def _split_quoted(values: pa.Array, delimiter: str) -> tuple[np.ndarray, pa.Array, np.ndarray]:
    counts, odd = np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    element = re.compile(rf'"((?:[^"\\]|\\.)*)"|((?:[^"\\{{}}{re.escape(delimiter)}]|\\.)+)', re.DOTALL)
    found: list[str | None] = []
    for place, text in enumerate(values.to_pylist()):
        if text is None:
            continue
        body = text.partition("=")[2] if text.startswith("[") else text  # `[0:1]={…}` has bounds of its own
        if body.startswith("{{") or not (body.startswith("{") and body.endswith("}")):
            odd[place] = True
            continue
        before = len(found)
        for each in element.finditer(body, 1, len(body) - 1):
            quoted, plain = each.groups()
            if plain is not None and plain.upper() == "NULL":
                found.append(None)
            else:
                found.append(_ESCAPED.sub(r"\1", plain if quoted is None else quoted))
        counts[place] = len(found) - before
    return counts, pa.array(found, pa.string()), odd
