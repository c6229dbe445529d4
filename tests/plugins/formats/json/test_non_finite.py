"""NaN and infinity in JSON output: null with a warning, or a dead letter if configured."""

from __future__ import annotations

import logging
import math
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.format import BadRecord
from gauss.contracts.format_batch import encode_good
from gauss.plugins.formats.json.codec import JsonFormat
from gauss.plugins.formats.json.spec import JsonConfig

ROWS: list[dict[str, Any]] = [
    {"n": 1.5, "o": {"x": 1.0}, "l": [1.0, 2.0]},
    {"n": math.nan, "o": {"x": 1.0}, "l": []},
    {"n": None, "o": {"x": math.inf}, "l": None},
    {"n": 2.5, "o": None, "l": [1.0, -math.inf]},
    {"n": None, "o": {"x": None}, "l": [None]},
]
BATCH = pa.RecordBatch.from_pylist(ROWS)


def test_they_are_null_and_each_column_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    format_ = JsonFormat(JsonConfig())
    with caplog.at_level(logging.WARNING):
        made = format_.encode_batch(BATCH).to_pylist()
        format_.encode_batch(BATCH)
    assert made[1] == b'{"n":null,"o":{"x":1.0},"l":[]}'
    assert made[3].endswith(b'"l":[1.0,null]}')
    told = [record.getMessage() for record in caplog.records if "non_finite" in record.getMessage()]
    assert [message.split(":")[0] for message in told] == ["n", "o", "l"]
    assert "1 rows" in told[0]


def test_they_are_dead_letters_where_they_are_rejected() -> None:
    format_ = JsonFormat(JsonConfig(non_finite="reject"))
    made = encode_good(format_, BATCH)
    assert made.good.tolist() == [0, 4]
    assert [(index, reason) for index, reason, _ in made.bad] == [(index, "out_of_range") for index in (1, 2, 3)]
    assert "NaN" in made.bad[0][2]
    with pytest.raises(BadRecord):
        format_.encode({"n": math.nan})
    assert JsonFormat(JsonConfig()).encode({"n": math.nan}) == b'{"n":null}'


def test_rows_without_them_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    format_ = JsonFormat(JsonConfig(non_finite="reject"))
    assert len(format_.encode_batch(BATCH.slice(0, 1))) == 1
    assert not caplog.records
