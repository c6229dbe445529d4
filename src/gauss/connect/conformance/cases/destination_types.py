"""Values that a destination writes: every type, NULL and edge values."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.compare import column_difference, ordered
from gauss.connect.conformance.datasets import EDGES, TYPES, Values, column_name, with_nulls
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.kit_sync import described, succeeded
from gauss.contracts.connector.connector import NULL_BECOMES
from gauss.contracts.connector.errors import ErrorCategory

WRITTEN = ("write.rows",)


def _written(bench: DestinationBench, chosen: Values, word: str) -> pa.Table:
    stream = bench.stream_name(word)
    wrote = bench.try_write(with_nulls(chosen), stream)
    error = wrote.result.error
    if error is not None and error.category is ErrorCategory.DATA and len(chosen) == 1:
        raise NotApplicable(f"the destination refuses these values: {described(error)}")
    succeeded(wrote.result)
    return ordered(bench.read_back(stream))


def _together(bench: DestinationBench, word: str, chosen: Values) -> tuple[Values, pa.Table | None]:
    """All columns in one stream; no rows if that fails, so that each is tried on its own."""
    bench.needs_reading()
    found = bench.supported(chosen)
    try:
        return found, _written(bench, found, word)
    except CaseFailed:
        return found, None


def _add(prefix: str, name: str, chosen: Values, expected: str) -> None:
    def run(bench: DestinationBench) -> None:
        supported, rows = bench.cached(prefix, lambda: _together(bench, prefix, chosen))
        if name not in supported:
            raise NotApplicable("the destination does not take this type")
        _needs_same_kind(bench, chosen[name][0])
        if rows is None:
            supported = {name: chosen[name]}
            rows = _written(bench, supported, prefix)
        wanted, column = with_nulls(supported), column_name(name)
        check(column in rows.column_names, "the column is missing")
        check(rows.num_rows == wanted.num_rows, f"{rows.num_rows} of {wanted.num_rows} rows")
        text = column_difference(wanted.column(column).slice(1), rows.column(column).slice(1), name)
        check(not text, text)

    CASES.add(Role.DESTINATION, f"write.{prefix}.{name}", expected, run, WRITTEN)


def _needs_same_kind(bench: DestinationBench, kind: pa.DataType) -> None:
    """A system without times and durations stores numbers, whose unit the kit does not know."""
    landed = bench.landed(kind) if bench.is_managed else None
    if landed is not None and pa.types.is_temporal(kind) and pa.types.is_integer(landed.type):
        raise NotApplicable(f"the destination stores this type as {landed.type}")


@CASES.destination("write.null_row", "A row of NULLs is written as NULLs.")
def writes_nulls(bench: DestinationBench) -> None:
    bench.needs_reading()
    chosen = bench.supported(TYPES)
    rows = _written(bench, chosen, "nulls")
    check(rows.num_rows == 3, f"{rows.num_rows} of 3 rows")
    for name, (kind, _) in chosen.items():
        landed = bench.landed(kind) if bench.is_managed else None
        if landed is not None and (not landed.nullable or NULL_BECOMES in (landed.metadata or {})):
            continue  # the destination says that it has no NULL of this type
        value = rows.column(column_name(name))[0].as_py()
        check(value is None, f"{name}: {value!r} for NULL")


for _name in TYPES:
    _add("type", _name, TYPES, f"Values of {_name} are written unchanged.")
for _name in EDGES:
    _add("edge", _name, EDGES, f"Edge values are written unchanged: {_name.replace('_', ' ')}.")
