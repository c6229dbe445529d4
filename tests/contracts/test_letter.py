"""Dead letters."""

from __future__ import annotations

import msgspec

from gauss.contracts.letter import MAX_DATA_BYTES, Letter
from gauss.model.details import MOST_DETAIL_BYTES


def test_letter_is_stored_as_json_with_base64_and_read_back() -> None:
    letter = Letter("bad_json", "no brace", "decode", "p", b"\xffx", "in", 5, 3, 50, "price")
    stored = msgspec.json.decode(msgspec.json.encode(letter))
    assert stored == {
        "reason": "bad_json", "detail": "no brace", "stage": "decode", "processor": "p", "data": "/3g=", "topic": "in",
        "inc": 5, "offset": 3, "ts_ms": 50, "column": "price", "attempts": 1,
    }  # fmt: skip
    assert msgspec.convert(stored, Letter) == letter


def test_long_record_is_cut_and_its_length_kept() -> None:
    letter = Letter(data=b"z" * (MAX_DATA_BYTES + 5), detail="d" * (2 * MOST_DETAIL_BYTES))
    assert (len(letter.data), letter.truncated) == (MAX_DATA_BYTES, MAX_DATA_BYTES + 5)
    assert len(letter.detail.encode()) <= MOST_DETAIL_BYTES
    letter.cut(7)
    assert (letter.data, letter.truncated) == (b"zzzzzzz", MAX_DATA_BYTES + 5)


def test_copy_of_a_letter_is_not_cut_again() -> None:
    letter = Letter(data=b"z" * (MAX_DATA_BYTES + 5), detail="d" * (2 * MOST_DETAIL_BYTES))
    copy = msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(letter, processor="p")), Letter)
    assert (copy.truncated, copy.detail) == (MAX_DATA_BYTES + 5, letter.detail)
    assert letter.detail.endswith(f"… ({2 * MOST_DETAIL_BYTES} bytes)")
