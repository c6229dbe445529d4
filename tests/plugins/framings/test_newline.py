"""newline: delimiters of one and of several bytes, including self-overlapping ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gauss.contracts.framing import Buffer
from gauss.plugins.framings.newline.framing import NewlineFraming
from gauss.plugins.framings.newline.spec import SPEC, NewlineConfig
from helpers.framing_conformance import FramingCase, FramingConformance, cut_stream


class TestLineFeed(FramingConformance):
    case = FramingCase(
        name="newline",
        config={"delimiter": "\n"},
        records=[b"a", b"", b"bcd", b"", b"\xff\x00\r", b"x" * 300],
        any_record=st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
        unfit=[b"\n", b"a\nb", b"a\n"],
    )


class TestLargeLines(FramingConformance):
    """Lines that are long enough to be searched one by one; short ones are counted."""

    case = FramingCase(
        name="newline",
        config={"delimiter": "\n"},
        records=[b"a" * 700, b"", b"b" * 600, b"c", b"d" * 900],
        any_record=st.integers(0, 2_000).map(lambda size: b"x" * size),
        unfit=[b"\n", b"x" * 999 + b"\n"],
    )


class TestCarriageReturnLineFeed(FramingConformance):
    case = FramingCase(
        name="newline",
        config={"delimiter": "\r\n"},
        records=[b"a", b"", b"b\r", b"\nc", b"\r\r", b"x" * 300],
        any_record=st.text("\r\nab", max_size=20).map(str.encode).filter(lambda data: b"\r\n" not in data),
        unfit=[b"\r\n", b"a\r\nb"],
    )


class TestDelimiterThatOverlapsItself(FramingConformance):
    case = FramingCase(
        name="newline",
        config={"delimiter": "abab"},
        records=[b"x", b"", b"ba", b"aba", b"abba", b"x" * 300],
        any_record=st.text("bx", max_size=20).map(str.encode),
        unfit=[b"abab", b"xababx", b"xab"],  # "xab" + "abab" would be cut after the "x"
    )


class TestUtf16(FramingConformance):
    """Adjacent U+0A41 and U+0100 contain the bytes of a line feed."""

    case = FramingCase(
        name="newline",
        config={"delimiter": "\n", "encoding": "utf-16-le"},
        records=[text.encode("utf-16-le") for text in ("a", "", "ੁĀ", "Ċ", "x" * 300, "語")],
        any_record=st.text("aੁĀĊ\r", max_size=20).map(lambda text: text.encode("utf-16-le")),
        unfit=["\n".encode("utf-16-le"), "a\nb".encode("utf-16-le"), b"odd"],
    )


class TestUtf16BigEndianThatOverlapsItself(FramingConformance):
    case = FramingCase(
        name="newline",
        config={"delimiter": "||", "encoding": "utf-16-be"},
        records=[text.encode("utf-16-be") for text in ("a", "", "|a", "a|b", "|a" * 100)],
        any_record=st.text("aĀ簀", max_size=20).map(lambda text: text.encode("utf-16-be")),
        unfit=["||".encode("utf-16-be"), "a|".encode("utf-16-be")],
    )


class TestLongDelimiter(FramingConformance):
    case = FramingCase(
        name="newline",
        config={"delimiter": "--граница--"},
        records=["--грани".encode(), b"", b"--", b"x" * 300],
        any_record=st.binary(max_size=60),
        unfit=["a--граница--b".encode()],
    )


def _framing(delimiter: str) -> NewlineFraming:
    return NewlineFraming(NewlineConfig(delimiter=delimiter))


@given(st.text("ab|", max_size=60), st.text("ab|", min_size=1, max_size=5), st.integers(1, 7))
def test_delimiters_are_found_left_to_right_without_overlap(text: str, delimiter: str, step: int) -> None:
    stream = text.encode()
    expected = stream.split(delimiter.encode())
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    records, error = cut_stream(_framing(delimiter), pieces)
    assert records == expected[:-1]
    assert (error.bad if error else b"") == expected[-1]


@given(st.lists(st.text("ab", max_size=8).map(str.encode), max_size=6), st.text("ab", min_size=1, max_size=4))
def test_unfit_marks_exactly_what_would_not_come_back(records: list[bytes], delimiter: str) -> None:
    framing = _framing(delimiter)
    bad = framing.unfit(pa.array(records, pa.binary()))
    for index, record in enumerate(records):
        wire = framing.joiner().join(pa.array([record], pa.binary()))
        comes_back = cut_stream(framing, [wire]) == ([record], None)
        assert comes_back == (bad is None or not bad[index])


def test_a_large_record_in_many_pieces_is_not_searched_again_with_each() -> None:
    searched = 0

    class Counting(NewlineFraming):
        def positions(self, buffer: bytes | bytearray | memoryview) -> object:  # type: ignore[override]
            nonlocal searched
            searched += len(buffer)
            return super().positions(buffer)

    framing = Counting(NewlineConfig(delimiter="||"))
    splitter = framing.splitter(1 << 20)
    for _ in range(1000):
        assert splitter.feed(b"x" * 100).count == 0
    assert splitter.feed(b"||").count == 1
    assert searched < 300_000


def test_an_unterminated_line_is_refused_before_its_end_comes() -> None:
    records, error = cut_stream(_framing("\n"), [b"ok\n", *[b"x" * 10] * 11], limit=100)
    assert records == [b"ok"]
    assert error is not None
    assert error.reason == "too_long"


def test_an_empty_delimiter_is_refused() -> None:
    with pytest.raises(ValidationError, match="delimiter"):
        SPEC.validate({"delimiter": ""})


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_long_record_is_not_searched_again_with_every_piece(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    framing = NewlineFraming(NewlineConfig.model_validate({"encoding": encoding}))
    searched = 0
    search = NewlineFraming.positions

    def counted(self: NewlineFraming, buffer: Buffer) -> np.ndarray:
        nonlocal searched
        searched += len(buffer)
        return search(self, buffer)

    monkeypatch.setattr(NewlineFraming, "positions", counted)
    splitter = framing.splitter(1 << 20)
    splitter.feed(b"x\0" * 200_000)
    piece = b"\x01\n\0\x01" if encoding == "utf-16-le" else b"\x01\0\n\x01"  # newline bytes across two characters
    for _ in range(100):
        assert splitter.feed(piece).count == 0
    frames = splitter.feed("\n".encode(encoding))
    assert (frames.count, len(frames.payload)) == (1, 400_402)
    assert searched < 5 * 400_402


@pytest.mark.parametrize("sizes", [(600, 600, 600), (600, 0, 5_000), (10, 2, 0), (100_000, 1, 70_000)])
def test_records_of_any_size_are_joined_alike(sizes: tuple[int, ...]) -> None:
    records = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
    framing = NewlineFraming(NewlineConfig(delimiter="\r\n"))
    for first in range(len(records)):
        part = pa.array(records, pa.binary()).slice(first)
        assert bytes(framing.joiner().join(part)) == b"".join(record + b"\r\n" for record in records[first:])
