"""Handling of NaN and infinity, which JSON can't express."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.format import BadRecord, BadRows

log = logging.getLogger("gauss.formats")

DETAIL = "JSON has no number for NaN and infinity"


class NonFinite:
    """Writes them as null, with one warning per column, or rejects their rows."""

    def __init__(self, how: str) -> None:
        self._rejects = how == "reject"
        self._logged: set[str] = set()

    def judge(self, rows: pa.RecordBatch) -> None:
        """Raises BadRows for rows with such values if they are rejected."""
        bad: dict[int, str] = {}
        for name, values in zip(rows.schema.names, rows.columns, strict=True):
            found = _found(values)
            if found is None or not found.any():
                continue
            if self._rejects:
                bad |= {int(index): name for index in np.flatnonzero(found)}
            elif name not in self._logged:
                self._logged.add(name)
                log.warning("%s: %d rows hold NaN or infinity, written as null (non_finite)", name, found.sum())
        if bad:
            raise BadRows([(index, "out_of_range", f"{name}: {DETAIL}") for index, name in sorted(bad.items())])

    def judge_row(self, row: dict[str, Any]) -> None:
        """As `judge`, for one row."""
        for name, value in row.items() if self._rejects else ():
            if isinstance(value, float) and not math.isfinite(value):
                raise BadRecord("out_of_range", DETAIL, name)


def _found(values: pa.Array) -> np.ndarray | None:
    """Which values are or contain a number that is not finite; None if the type has none."""
    kind = values.type
    if pa.types.is_floating(kind):
        finite: np.ndarray = pc.fill_null(pc.is_finite(values), fill_value=True).to_numpy(zero_copy_only=False)
        return ~finite
    if pa.types.is_struct(kind):
        inner = [found for found in map(_found, values.flatten()) if found is not None]
        return np.logical_or.reduce(inner) if inner else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inside = _found(values.flatten())
        if inside is None or not inside.any():
            return None
        made = np.zeros(len(values), bool)
        made[pc.list_parent_indices(values).to_numpy()[inside]] = True
        return made
    return None
