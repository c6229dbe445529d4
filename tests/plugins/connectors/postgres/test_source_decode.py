"""Binary COPY rows decoded to Arrow, compared with rows encoded as the Postgres documentation says."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.catalog_types import Reading
from gauss.plugins.connectors.postgres.source_arrays import WALK
from gauss.plugins.connectors.postgres.source_decode import Y2K_DAYS, Y2K_US, decode
from gauss.plugins.connectors.postgres.source_position import date_text, micros_of, time_text
from gauss.plugins.processors.pg_source.copy_stream import CopyRows

TEXT, INT, UUID = Reading("text", pa.string()), Reading("int8", pa.int64()), Reading("uuid", pa.string())
JSONB, DATE = Reading("jsonb", pa.string()), Reading("date", pa.date32())
TIME = Reading("timestamp", pa.timestamp("us"))
TEXTS = Reading("list", pa.list_(pa.string()), element=TEXT)
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def copied(*rows: tuple[bytes | None, ...]) -> CopyRows:
    """Rows as Postgres sends them."""
    made = []
    for row in rows:
        pieces = [b"\xff\xff\xff\xff" if each is None else struct.pack(">i", len(each)) + each for each in row]
        made.append(struct.pack(">h", len(row)) + b"".join(pieces))
    offsets = np.cumsum([0, *map(len, made)]).astype(np.int64)
    return CopyRows(np.frombuffer(b"".join(made), np.uint8), offsets)


def array_bytes(values: list[str | None]) -> bytes:
    if not values:
        return struct.pack(">iii", 0, 0, 25)
    pieces = [b"\xff\xff\xff\xff" if v is None else struct.pack(">i", len(v.encode())) + v.encode() for v in values]
    return struct.pack(">iiiii", 1, int(None in values), 25, len(values), 1) + b"".join(pieces)


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | WORDS,
        st.none() | st.uuids(),
        st.none() | st.lists(st.none() | WORDS, max_size=4),
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS)
def test_decoded_rows_equal_the_written_ones(rows: list[tuple[Any, ...]]) -> None:
    wire = copied(
        *(
            (
                None if number is None else struct.pack(">q", number),
                None if text is None else text.encode(),
                None if key is None else key.bytes,
                None if text is None else b"\x01" + text.encode(),
                None if words is None else array_bytes(words),
            )
            for number, text, key, words in rows
        )
    )
    columns, bad = decode(wire, [INT, TEXT, UUID, JSONB, TEXTS])
    assert not bad
    for column in columns:
        column.validate(full=True)
    numbers, texts, keys, documents, words = (column.to_pylist() for column in columns)
    assert numbers == [row[0] for row in rows]
    assert texts == documents == [row[1] for row in rows]
    assert keys == [None if row[2] is None else str(row[2]) for row in rows]
    assert words == [row[3] for row in rows]


def test_compiled_walk_of_arrays_agrees_with_the_plain_one() -> None:
    values: list[list[str | None]] = [["a", None, "bc"], [], ["é" * number for number in range(40)], [None]]
    wire = copied(*((array_bytes(each),) for each in values))
    plain = decode(wire, [TEXTS]).columns[0]
    WALK.compile()
    assert decode(wire, [TEXTS]).columns[0].equals(plain)
    assert plain.to_pylist() == values


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_timestamps_are_exact_or_marked_as_bad(values: list[int | None]) -> None:
    wire = copied(*((None if value is None else struct.pack(">q", value),) for value in values))
    columns, bad = decode(wire, [TIME])
    found = columns[0].cast(pa.int64()).to_pylist()
    for value, made, odd in zip(values, found, bad.get(0, [False] * len(values)), strict=True):
        if value is None:
            assert made is None and not odd
        elif value == -(2**63) or value + Y2K_US >= 2**63:
            assert made is None and odd
        else:
            assert made == value + Y2K_US and not odd


@pytest.mark.parametrize("day", [-(2**31), 2**31 - 1])
def test_infinite_date_is_bad(day: int) -> None:
    columns, bad = decode(copied((struct.pack(">i", day),), (struct.pack(">i", 1),)), [DATE])
    assert columns[0].cast(pa.int32()).to_pylist() == [None, 1 + Y2K_DAYS]
    assert bad[0].tolist() == [True, False]


def test_text_that_is_not_utf8_is_bad() -> None:
    columns, bad = decode(copied((b"fine",), (b"\xff",), (None,)), [TEXT])
    assert columns[0].to_pylist() == ["fine", None, None]
    assert bad[0].tolist() == [False, True, False]


@pytest.mark.parametrize("body", [b"", b"\x00\x01", b"\x00\x02\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x09a"])
def test_malformed_row_is_an_internal_error(body: bytes) -> None:
    rows = CopyRows(np.frombuffer(body, np.uint8), np.array([0, len(body)]))
    with pytest.raises(ConnectorError, match="1 columns"):
        decode(rows, [TEXT])


def test_all_nulls_of_every_fixed_type_are_nulls() -> None:
    columns, bad = decode(copied((None, None, None)), [INT, TIME, DATE])
    assert not bad and [column.to_pylist() for column in columns] == [[None]] * 3


@given(st.integers(-210_000_000_000_000_000, 2**63 - 1))
def test_time_text_parses_to_the_same_time(micros: int) -> None:
    assert micros_of(time_text(micros)) == micros


def test_year_bc_is_formatted_like_in_postgres() -> None:
    assert date_text(-735_160 - 2) == "0044-03-13 BC"
    assert time_text(-62_167_219_200_000_000) == "0001-01-01 00:00:00.000000 BC"
    assert date_text(2_932_897) == "10000-01-01"


def test_nil_uuid_is_written_in_full() -> None:
    wire = copied((uuid.UUID(int=0).bytes,))
    assert decode(wire, [UUID]).columns[0].to_pylist() == ["00000000-0000-0000-0000-000000000000"]
