"""The Spark backend of expressions gives what the Python backend gives, for generated expressions and rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.scan.program.check import check
from gauss.scan.program.ir import Kind
from gauss.scan.program.parse import parse
from gauss.scan.program.python import compile_row

pytestmark = pytest.mark.spark

FIELDS = {"n": Kind.NUMBER, "m": Kind.NUMBER, "i": Kind.INT, "s": Kind.STRING, "t": Kind.STRING, "b": Kind.BOOL}
SPARK_SCHEMA = "n double, m double, i bigint, s string, t string, b boolean"

TEXT = st.text(st.sampled_from("aAbé😀 \u2028"), max_size=3)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1e308, 5e-324, 0.1])
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | FLOATS,
        "m": st.none() | FLOATS,
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | TEXT,
        "t": st.none() | TEXT,
        "b": st.none() | st.booleans(),
    }
)


def numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from([".n", ".m", ".i", "0", "1", "2.5", "-3", "1e300", "9007199254740993"])
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("-({})".format, inner),
        st.builds("({} | length)".format, strings(depth - 1)),
    )


def strings(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from([".s", ".t", '""']) | TEXT.map(json.dumps)
    return leaf if depth == 0 else leaf | st.builds("({} + {})".format, strings(depth - 1), strings(depth - 1))


def truths(depth: int) -> st.SearchStrategy[str]:
    compare, equal = st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.sampled_from(["==", "!="])
    leaf = st.one_of(
        st.builds("({} {} {})".format, numbers(2), compare, numbers(2)),
        st.builds("({} {} {})".format, strings(1), compare, strings(1)),
        st.builds("({} {} null)".format, st.sampled_from([".n", ".i", ".s", ".b"]), equal),
        st.builds("(.b {} {})".format, equal, st.sampled_from(["true", "false", ".b"])),
        st.builds(
            "({} | {}({}))".format, strings(1), st.sampled_from(["startswith", "endswith", "contains"]), strings(0)
        ),
        st.sampled_from([".b", ".n", ".s", "true", "null"]),
    )
    if depth == 0:
        return leaf
    inner = truths(depth - 1)
    return (
        leaf
        | st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("(not {})".format, inner)
    )


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.one_of(truths(2), numbers(2), strings(1)), min_size=15, max_size=15),
    st.lists(ROWS, min_size=8, max_size=8),
)
def test_spark_and_python_agree(spark: Any, texts: list[str], rows: list[dict[str, Any]]) -> None:
    from pyspark.sql import functions as F

    from gauss.scan.program.spark import compile_column

    programs = [check(parse(text), FIELDS) for text in texts]
    frame = spark.createDataFrame([tuple(row[name] for name in FIELDS) for row in rows], SPARK_SCHEMA)
    found = frame.select(*(compile_column(typed, F.col).alias(f"c{index}") for index, typed in enumerate(programs)))
    for row, answers in zip(rows, found.collect(), strict=True):
        for text, typed, answer in zip(texts, programs, answers, strict=True):
            expected = compile_row(typed)(row)
            assert answer == expected, (text, row)
