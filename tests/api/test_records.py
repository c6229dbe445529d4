from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

from gauss.api.records import decoding, lines, object_lines, time_ms
from gauss.model.batch import record_batch
from gauss.model.errors import ConfigError
from gauss.scan.program.columns import WIDE


def test_text_is_given_as_text() -> None:
    batch = record_batch(5, 7, pa.array([b'{"a": 1}', "ü\n".encode()], type=pa.binary()))
    assert [json.loads(line) for line in lines(batch).splitlines()] == [
        {"offset": 5, "ts_ms": 7, "data": '{"a": 1}'},
        {"offset": 6, "ts_ms": 7, "data": "ü\n"},
    ]


def test_bytes_that_are_no_text_are_base64_and_their_neighbours_stay_text() -> None:
    batch = record_batch(0, 1, pa.array([b"fine", b"\xff\x00"], type=pa.binary()))
    found = [json.loads(line)["data"] for line in lines(batch).splitlines()]
    assert found == ["fine", {"base64": "/wA="}]


def test_record_that_a_format_refuses_keeps_its_bytes_beside_the_reason() -> None:
    batch = record_batch(0, 1, pa.array([b'{"a": 1}', b"{"], type=pa.binary()))
    good, bad = (json.loads(line)["data"] for line in lines(batch, decoding(json.loads)).splitlines())
    assert good == {"a": 1}
    assert bad["data"] == "{" and "Expecting" in bad["error"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("1700000000000", 1700000000000),
        ("2023-11-14T22:13:20Z", 1700000000000),
        ("2023-11-14T22:13:20", 1700000000000),
        ("2023-11-15T00:13:20+02:00", 1700000000000),
    ],
)
def test_time_is_read_as_milliseconds(given: str | None, expected: int | None) -> None:
    assert time_ms(given, "from") == expected


def test_sum_beyond_64_bits_is_a_number() -> None:
    batch = pa.record_batch({"s": pa.array([2**70, None], WIDE)})
    assert [json.loads(line) for line in object_lines(batch).splitlines()] == [{"s": 2**70}, {"s": None}]


def test_duration_counts_back_from_now() -> None:
    before = int(time.time() * 1000)
    found = time_ms("-5m", "from")
    assert found is not None and 0 <= found - (before - 300_000) < 60_000


def test_other_text_is_refused_with_examples() -> None:
    with pytest.raises(ConfigError, match="from: expected an ISO 8601 time") as caught:
        time_ms("yesterday", "from")
    assert "-5m" in caught.value.hint
