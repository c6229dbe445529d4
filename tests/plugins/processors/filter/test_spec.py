"""The lints of filter and sql."""

from __future__ import annotations

import pytest

from gauss.contracts.processor import LintContext
from gauss.plugins.processors.filter.spec import SPEC as FILTER
from gauss.plugins.processors.sql.spec import SPEC as SQL


def faults_of_filter(where: str, fields: tuple[str, ...] | None = None) -> list[str]:
    assert FILTER.lint is not None
    return FILTER.lint(FILTER.validate({"input": {"format": "json"}, "where": where}), LintContext(fields))


def faults_of_sql(query: str, fields: tuple[str, ...] | None = None) -> list[str]:
    assert SQL.lint is not None
    return SQL.lint(SQL.validate({"input": {"format": "json"}, "query": query}), LintContext(fields))


def test_filter_with_a_fault_in_its_expression_is_told_where() -> None:
    [fault] = faults_of_filter(".bid >")
    assert "unexpected the end" in fault
    assert fault.splitlines()[-1].endswith("^")


def test_filter_on_an_unknown_field_is_told_the_known_ones() -> None:
    [fault] = faults_of_filter(".bidd > 1", ("bid", "$.o.id"))
    assert '"bidd"' in fault and "bid, o.id" in fault
    assert faults_of_filter(".o.id > 1", ("bid", "$.o.id")) == []


def test_filter_without_a_format_is_told_to_name_one() -> None:
    assert FILTER.lint is not None
    config = FILTER.validate({"input": {}, "where": ".a > 1"})
    assert "needs a format" in FILTER.lint(config, LintContext(None))[0]


@pytest.mark.parametrize("query", ["SELECT * FROM input", "select i.* from input i", "SELECT DISTINCT * FROM input"])
def test_select_star_without_fields_is_a_fault(query: str) -> None:
    assert "SELECT * needs to know the fields" in faults_of_sql(query)[0]
    assert faults_of_sql(query, ("bid",)) == []


@pytest.mark.parametrize("query", ["SELECT count(*) AS n FROM input", "SELECT a * b AS c FROM input"])
def test_a_star_that_takes_no_columns_is_no_fault(query: str) -> None:
    assert faults_of_sql(query) == []


def test_a_query_over_anything_but_input_is_a_fault() -> None:
    assert "FROM input" in faults_of_sql("SELECT 'from input' AS x FROM other")[0]
