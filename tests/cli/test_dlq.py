"""The output of `gauss dlq`."""

from __future__ import annotations

import base64

import pytest

from gauss.cli.dlq import _origin, _preview


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"a":1}', '{"a":1}  (7 bytes)'),
        ("é\n😀".encode(), "é\\n😀  (7 bytes)"),
        (b"\x83\xa6symbol\xa1e\x01\x00", "\\x83\\xa6symbol\\xa1e\\x01\\x00  (12 bytes)"),
        (b"", "  (0 bytes)"),
        (b"x" * 200, "x" * 159 + "…  (200 bytes)"),
    ],
)
def test_each_odd_byte_of_a_dead_letter_is_escaped_once(data: bytes, shown: str) -> None:
    assert _preview({"data": base64.b64encode(data).decode()}) == shown


def test_a_row_that_could_not_be_encoded_is_said_to_be_one() -> None:
    letter = {"topic": "quotes", "offset": 7, "column": "bid"}
    assert _origin(letter) == "from quotes at 7, field bid"
    assert _origin({**letter, "offset": -1}) == "a row for quotes, field bid"
