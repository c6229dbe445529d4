"""Checks of a Postgres table's schema that need no server."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.clients.postgres.ddl import create_table
from gauss.contracts.format import FieldType
from gauss.contracts.target import TargetField, TargetSchema
from gauss.model.errors import ConfigError

FIELDS = (TargetField("bid", FieldType("REAL"), "bid"), TargetField("ask", FieldType("REAL"), "ask"))


def statement(props: dict[str, Any], **attrs: Any) -> str:
    fields = (*FIELDS, TargetField("spread", FieldType("REAL"), None, props))
    return create_table(TargetSchema(fields, {"table": "quotes", **attrs}))


@pytest.mark.parametrize("word", ["generated", "materialized"])
def test_generated_and_materialized_columns_have_the_same_ddl(word: str) -> None:
    assert '"spread" REAL GENERATED ALWAYS AS (ask - bid) STORED' in statement({word: "ask - bid"})


def test_column_that_is_generated_and_materialized_is_refused() -> None:
    with pytest.raises(ConfigError, match="spread can't be generated and materialized"):
        statement({"generated": "ask", "materialized": "ask"})


@pytest.mark.parametrize("word", ["generated", "materialized", "check"])
def test_expression_with_an_unknown_column_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=f'column spread: {word}: the table has no column "asks"') as caught:
        statement({word: "asks > 1"})
    assert caught.value.hint == 'did you mean "ask"?'


def test_partition_by_an_unknown_column_is_refused() -> None:
    with pytest.raises(ConfigError, match='partition_by: the table has no column "bids"'):
        statement({}, partition_by="RANGE (bids)")
