"""The Spark backend keeps the rows and gives the values of the Python backend, for generated programs and data."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gauss.scan.program.bound import Bound, bind
from gauss.scan.program.parse import parse_scan
from scan.program.generated import FIELDS, ROWS, SPARK, programs

pytestmark = pytest.mark.spark

CASES = int(os.environ.get("GAUSS_PROGRAM_CASES", "60"))
PROGRAMS = 15 if CASES < 1_000 else 60
"""Evaluated by one Spark job, which costs the same for one as for many."""
RUNS = settings(
    max_examples=-(-CASES // PROGRAMS),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink a failure would take minutes of Spark jobs
    suppress_health_check=list(HealthCheck),
)


def field(name: str) -> Any:
    from pyspark.sql import functions as F

    return F.col(f"`{name}`")


def frame_of(spark: Any, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame([tuple(row[name] for name in FIELDS) for row in rows], SPARK)


@pytest.mark.timeout(3600)
@RUNS
@given(st.lists(programs(), min_size=PROGRAMS, max_size=PROGRAMS), st.lists(ROWS, min_size=8, max_size=8))
def test_spark_and_python_agree(spark: Any, texts: list[str], rows: list[dict[str, Any]]) -> None:
    from pyspark.sql import functions as F

    from gauss.scan.program.spark import compile_stages

    bound = [bind(parse_scan(text), FIELDS) for text in texts]
    answers = []
    for index, program in enumerate(bound):
        keep, made = compile_stages(program, field)
        kept = F.lit(True) if keep is None else keep
        values = [value.alias(name) for name, value in (made or {}).items()] or [F.lit(0).alias("none")]
        answers.append(F.struct(kept.alias("_kept"), *values).alias(f"p{index}"))
    for row, found in zip(rows, frame_of(spark, rows).select(*answers).collect(), strict=True):
        for text, program, answer in zip(texts, bound, found, strict=True):
            check_row(text, program, row, answer.asDict())


def check_row(text: str, bound: Bound, row: dict[str, Any], answer: dict[str, Any]) -> None:
    expected = bound.row(row)
    assert answer["_kept"] is (expected is not None), (text, row)
    if expected is not None and bound.columns is not None:
        for name in bound.columns:
            assert same(answer[name], expected[name]), (text, row, answer)


def same(answer: Any, expected: Any) -> bool:
    both_nan = isinstance(answer, float) and isinstance(expected, float) and math.isnan(answer) and math.isnan(expected)
    return bool(answer == expected) or both_nan


def test_a_deep_expression_stays_small_in_the_plan(spark: Any) -> None:
    from gauss.scan.program.spark import run

    stages = [".n", *["(. / 3 | round) | -(.) | . % 1e9"] * 8]
    bound = bind(parse_scan(" | ".join(stages)), FIELDS)
    row = dict.fromkeys(FIELDS) | {"n": 1e6}
    found = run(bound, frame_of(spark, [row]), field).collect()
    assert [tuple(answer) for answer in found] == [tuple((bound.row(row) or {}).values())]
