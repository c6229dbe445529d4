"""Unknown columns in SQL are found, and other names are not reported."""

from __future__ import annotations

import pytest

from gauss.clients.sql_names import check_columns
from gauss.model.errors import ConfigError

COLUMNS = ["ts_ms", "sym", "bid", "ask", "day", "Odd Name", "point"]


@pytest.mark.parametrize(
    "sql",
    [
        "ts_ms",
        "(ts_ms, sym)",
        "toYYYYMM(toDateTime(ts_ms / 1000))",
        "toDateTime(ts_ms / 1000) + INTERVAL 1 YEAR",
        "toDateTime(ts_ms / 1000) + INTERVAL 1 MONTH TO VOLUME 'cold', toDateTime(ts_ms) + toIntervalDay(3) DELETE",
        "toDateTime(ts_ms / 1000) + INTERVAL 1 DAY DELETE WHERE bid > 1.5e3 AND NOT isNull(sym)",
        "toDateTime(ts_ms / 1000) + INTERVAL 1 DAY RECOMPRESS CODEC(ZSTD(3))",
        "`Odd Name`, \"sym\", 'no column', 'it''s none'",
        "CASE WHEN bid > 1 THEN ask ELSE NULL END",
        "CAST(bid AS Decimal(18, 8)), ask::Int64",
        "arrayMap(x -> x + unknown, [bid])",
        "point.x + point.y",
        "day DESC, sym ASC",
        "dateDiff('day', toDateTime(ts_ms), now())",
        "now64(3)",
        "'unknown'",
        "RANGE (ts_ms)",
        "tuple()",
    ],
)
def test_names_of_columns_are_accepted(sql: str) -> None:
    check_columns("clause", sql, COLUMNS)


@pytest.mark.parametrize(
    ("sql", "name", "near"),
    [
        ("exchange", "exchange", "its columns are"),
        ("(ts_ms, syn)", "syn", 'did you mean "sym"?'),
        ("toDateTime(ts_m / 1000) + INTERVAL 1 YEAR", "ts_m", 'did you mean "ts_ms"?'),
        ("`Od Name`", "Od Name", 'did you mean "Odd Name"?'),
        ("bids - ask", "bids", 'did you mean "bid"?'),
    ],
)
def test_a_name_that_is_no_column_is_refused_with_the_nearest(sql: str, name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f'clause: the table has no column "{name}"') as caught:
        check_columns("clause", sql, COLUMNS)
    assert near in caught.value.hint


def test_words_without_quotes_mean_lower_case_in_postgres() -> None:
    check_columns("generated", "BID - Ask", COLUMNS, folds=True)
    with pytest.raises(ConfigError):
        check_columns("generated", '"BID" - ask', COLUMNS, folds=True)
    with pytest.raises(ConfigError):
        check_columns("order_by", "BID", COLUMNS)
