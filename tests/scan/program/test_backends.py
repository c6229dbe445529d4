"""Programs over Arrow columns give the rows and cost the fuel of the row interpreter, for generated programs and data.

GAUSS_PROGRAM_CASES=5000 makes the long run.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gauss.contracts.expression import VALUE, Value
from gauss.scan.program import arrow
from gauss.scan.program.bound import bind
from gauss.scan.program.check import check
from gauss.scan.program.fuel import Meter
from gauss.scan.program.parse import parse, parse_scan
from helpers import row_programs
from helpers.cases import cases
from helpers.programs import FIELDS, ROWS, batch_of, expressions, programs, same
from helpers.row_programs import admit_one, row_cost, run_row

CASES = settings(
    max_examples=int(os.environ.get("GAUSS_PROGRAM_CASES", cases(300))),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MANY = st.lists(ROWS, min_size=3, max_size=6) | st.lists(ROWS, max_size=1)


@pytest.mark.timeout(3600)
@CASES
@given(programs(), MANY)
def test_rows_and_columns_agree_on_results_and_fuel(text: str, rows: list[dict[str, Any]]) -> None:
    bound = bind(parse_scan(text), FIELDS)
    batch = batch_of(rows)
    expected = {index: made for index, row in enumerate(rows) if (made := run_row(bound, row)) is not None}
    found, kept = bound.run(batch)
    event(f"kept all: {kept is None}")
    assert list(expected) == list(range(len(rows)) if kept is None else kept)
    for made, wanted in zip(found.to_pylist(), expected.values(), strict=True):
        if bound.columns is not None:
            assert list(made) == list(bound.columns)
            assert all(same(made[name], wanted[name]) for name in made), (made, wanted)
    if bound.columns is not None:
        assert found.schema == bound.run(batch.slice(0, 0))[0].schema  # for any rows
    assert bound.cost.batch(batch).tolist() == [row_cost(bound, row) for row in rows]
    assert all(cost >= bound.static_cost > 0 for cost in bound.cost.batch(batch))


@pytest.mark.timeout(3600)
@CASES
@given(expressions(), MANY)
def test_rows_and_columns_agree_on_expressions(text: str, rows: list[dict[str, Any]]) -> None:
    typed = check(parse(text), FIELDS)
    batch = batch_of(rows)
    whole = arrow.compile_stages([Value(typed.program.root)], [typed.kinds], typed.kinds)
    values = whole(batch)[0].column(VALUE).to_pylist()
    assert len(values) == len(rows)
    for row, value in zip(rows, values, strict=True):
        assert same(value, row_programs.compile_row(typed)(row)), row
    keep = arrow.compile_filter(typed)(batch)
    assert keep.null_count == 0
    if typed.program.paths() != ["j"]:  # outside programs a row holds the value itself, not its JSON text
        assert keep.to_pylist() == [row_programs.compile_filter(typed)(row) for row in rows]


LIMITS = st.integers(1, 300) | st.integers(1, 10_000)


@settings(deadline=None)
@given(programs(), MANY, st.data(), LIMITS, LIMITS)
def test_a_batch_costs_as_its_rows_do_and_is_cut_alike(
    text: str, rows: list[dict[str, Any]], data: st.DataObject, item: int, scan: int
) -> None:
    bound = bind(parse_scan(text), FIELDS)
    lengths = data.draw(st.lists(st.integers(0, 5_000), min_size=len(rows), max_size=len(rows)))
    batch, sizes = batch_of(rows), np.array(lengths, np.int32)
    costs = [row_cost(bound, row, size) for row, size in zip(rows, lengths, strict=True)]
    toll = bound.toll(batch, sizes)
    assert toll.each().tolist() == costs
    assert toll.whole == sum(costs)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert toll.between(start, stop) == sum(costs[start:stop])
    if costs:
        assert toll.within(max(costs) * len(costs))
        assert not toll.within(max(costs) - 1)
    by_rows, by_batch = Meter(item, scan), Meter(item, scan)
    assert by_batch.admit_batch(toll) == by_rows.admit(np.array(costs, np.int64))
    assert by_batch.spent == by_rows.spent


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 50), st.integers(1, 400), st.integers(1, 7))
def test_a_batch_is_cut_where_row_by_row_metering_stops(costs: list[int], item: int, scan: int, size: int) -> None:
    rows, batches = Meter(item, scan), Meter(item, scan)
    done, why = 0, None
    for cost in costs:
        if (why := admit_one(rows, cost)) is not None:
            break
        done += 1
    taken, stopped = 0, None
    while taken < len(costs) and stopped is None:
        count, stopped = batches.admit(np.array(costs[taken : taken + size], np.int64))
        taken += count
    assert (taken, stopped, batches.spent) == (done, why, rows.spent)
