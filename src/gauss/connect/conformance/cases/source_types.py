"""Values that a source reads: every type, NULL and edge values. The kit writes them first."""

from __future__ import annotations

import pyarrow as pa

from gauss.connect.conformance.case import CASES, CaseFailed, NotApplicable, Role, check
from gauss.connect.conformance.cases.source_read import READ
from gauss.connect.conformance.compare import column_difference, ordered
from gauss.connect.conformance.datasets import BASIC, EDGES, TYPES, Values, column_name, with_nulls
from gauss.connect.conformance.destination_bench import DestinationBench
from gauss.connect.conformance.source_bench import CANT_FILL, SourceBench


def _fillable(bench: SourceBench, chosen: Values) -> Values:
    """The columns that the kit can write to the source's system."""
    if not bench.can_fill:
        raise NotApplicable(CANT_FILL)
    if bench.settings.fill is not None or bench.other is None:
        return chosen
    return DestinationBench(bench.other, bench.target, bench.settings, bench.folder()).supported(chosen)


def _read(bench: SourceBench, chosen: Values, word: str) -> pa.Table:
    stream = bench.fill(bench.stream_name(word), with_nulls(chosen))
    return ordered(bench.read(stream, limits={}).rows)


def _together(bench: SourceBench, word: str, chosen: Values) -> tuple[Values, pa.Table | None]:
    """All columns in one stream; no rows if that fails, so that each is tried on its own."""
    found = _fillable(bench, chosen)
    try:
        return found, _read(bench, found, word)
    except (CaseFailed, NotApplicable):
        return found, None


def _add(prefix: str, name: str, chosen: Values, expected: str) -> None:
    def run(bench: SourceBench) -> None:
        fillable, rows = bench.cached(prefix, lambda: _together(bench, prefix, chosen))
        if name not in fillable:
            raise NotApplicable("the destination of the same name does not take this type")
        one = {name: chosen[name]}
        if rows is None:
            fillable, rows = one, _read(bench, one, prefix)
        wanted, column = with_nulls(fillable), column_name(name)
        check(column in rows.column_names, "the column is missing")
        check(rows.num_rows == wanted.num_rows, f"{rows.num_rows} of {wanted.num_rows} rows")
        text = column_difference(wanted.column(column).slice(1), rows.column(column).slice(1), name)
        check(not text, text)

    CASES.add(Role.SOURCE, f"read.{prefix}.{name}", expected, run, READ)


@CASES.source("read.null_row", "A row of NULLs is read as NULLs.")
def reads_nulls(bench: SourceBench) -> None:
    chosen = {name: TYPES[name] for name in BASIC}
    found = _read(bench, chosen, "nulls")
    check(found.num_rows == 3, f"{found.num_rows} of 3 rows")
    for name in chosen:
        value = found.column(column_name(name))[0].as_py()
        check(value is None, f"{name}: {value!r} for NULL")


for _name in TYPES:
    _add("type", _name, TYPES, f"Values of {_name} are read unchanged.")
for _name in EDGES:
    _add("edge", _name, EDGES, f"Edge values are read unchanged: {_name.replace('_', ' ')}.")
