"""length_prefixed: the three prefixes, the fast path for equal lengths, and the compiled walk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gauss.plugins.framings.buffered_splitter import Cut
from gauss.plugins.framings.length_prefixed import framing as module
from gauss.plugins.framings.length_prefixed.framing import LengthPrefixedFraming
from gauss.plugins.framings.length_prefixed.spec import SPEC, LengthPrefixedConfig
from gauss.plugins.framings.length_prefixed.walk import Walker, walk
from helpers.cases import cases
from helpers.framing_conformance import FramingCase, FramingConformance, cut_stream, pieces_at

RECORDS = [b"a", b"", b"bcd", b"x" * 127, b"y" * 128, b"\0" * 300]


class TestU16(FramingConformance):
    case = FramingCase(
        name="length_prefixed",
        config={"prefix_type": "u16be"},
        records=RECORDS,
        any_record=st.binary(max_size=300),
        unfit=[b"x" * 65_536],
    )


class TestU32(FramingConformance):
    case = FramingCase(
        name="length_prefixed",
        config={"prefix_type": "u32be"},
        records=RECORDS,
        any_record=st.binary(max_size=300),
    )


class TestVarint(FramingConformance):
    case = FramingCase(
        name="length_prefixed",
        config={"prefix_type": "varint"},
        records=RECORDS,
        any_record=st.binary(max_size=300),
        malformed=[b"\x80" * 10, b"\xff" * 40, b"\x80" * 10 + b"\x01"],
    )


class TestEqualLengths(FramingConformance):
    case = FramingCase(
        name="length_prefixed",
        config={"prefix_type": "u32be"},
        records=[b"abc", b"def", b"ghi", b"jkl", b"mno"],
        any_record=st.sampled_from([b"abc", b"def", b"\0\0\0"]),
    )


def _framing(prefix_type: str) -> LengthPrefixedFraming:
    return LengthPrefixedFraming(LengthPrefixedConfig.model_validate({"prefix_type": prefix_type}))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Walker:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(tmp_path_factory.mktemp("numba")))
        walker = Walker()
        walker.start_compiling().join()
    assert walker._compiled is not None
    return walker


@pytest.mark.parametrize("prefix_type", ["u16be", "u32be", "varint"])
def test_the_compiled_walk_gives_what_the_plain_one_gives(compiled: Walker, prefix_type: str) -> None:
    kind = module.KINDS[prefix_type]

    @given(st.lists(st.binary(max_size=200), max_size=12), st.binary(max_size=20), st.sampled_from([0, 50, 2**31 - 1]))
    @settings(max_examples=cases(150), deadline=None)
    def check(records: list[bytes], rest: bytes, limit: int) -> None:
        stream = bytes(_framing(prefix_type).joiner().join(pa.array(records, pa.binary()))) + rest
        places = [np.zeros(len(stream) + 1, np.int64) for _ in range(4)]
        plain = walk(stream, kind, limit, len(stream), places[0], places[1])
        fast = compiled(stream, kind, limit, places[2], places[3])
        assert tuple(fast) == plain
        assert (places[0] == places[2]).all()
        assert (places[1] == places[3]).all()

    check()


@pytest.mark.parametrize("prefix_type", ["u16be", "u32be", "varint"])
def test_the_compiled_walk_cuts_as_the_plain_one_at_any_byte(
    compiled: Walker, prefix_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WALKER", compiled)
    framing = _framing(prefix_type)
    stream = bytes(framing.joiner().join(pa.array(RECORDS[:5], pa.binary())))
    for at in range(len(stream) + 1):
        assert cut_stream(framing, pieces_at(stream, [at])) == (RECORDS[:5], None)


@pytest.mark.parametrize(("prefix_type", "stream"), [("u32be", b"\xff\xff\xff\xff"), ("varint", b"\xff" * 9 + b"\x7f")])
def test_a_huge_length_is_refused_as_soon_as_it_is_read(prefix_type: str, stream: bytes) -> None:
    records, error = cut_stream(_framing(prefix_type), [stream])
    assert records == []
    assert error is not None
    assert error.reason == "too_long"
    assert error.bad == stream


def test_shorter_records_behind_equal_ones_are_found_in_the_same_feed() -> None:
    framing = _framing("u16be")
    records = [b"x" * 50] * 20 + [b"", b"a", b"bc"]
    stream = framing.joiner().join(pa.array(records, pa.binary()))
    assert framing.splitter(100).feed(stream).count == 23
    starts, ends = framing.bounds(stream)
    assert [stream[a:b] for a, b in zip(starts, ends, strict=True)] == records


def test_a_large_record_in_many_pieces_is_looked_at_only_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    framing = _framing("varint")
    splitter = framing.splitter(1 << 20)
    looks: list[int] = []
    cut = splitter._cut

    def counted(buffer: bytes | bytearray) -> Cut:
        looks.append(len(buffer))
        return cut(buffer)

    monkeypatch.setattr(splitter, "_cut", counted)
    stream = framing.joiner().join(pa.array([b"x" * 100_000], pa.binary()))
    counts = [splitter.feed(stream[at : at + 100]).count for at in range(0, len(stream), 100)]
    assert sum(counts) == 1
    assert looks == [100, len(stream)]


def test_numba_is_imported_only_for_many_records_of_different_lengths(tmp_path: Path) -> None:
    script = """
import sys, pyarrow as pa
from gauss.plugins.framings.length_prefixed.framing import LengthPrefixedFraming
from gauss.plugins.framings.length_prefixed.spec import LengthPrefixedConfig
from gauss.plugins.framings.length_prefixed.walk import WALKER
framing = LengthPrefixedFraming(LengthPrefixedConfig(prefix_type="u32be"))
def feed(records):
    assert framing.splitter(1000).feed(framing.joiner().join(pa.array(records, pa.binary()))).count == len(records)
feed([b"x" * 10] * 100_000)
feed([b"x", b"yy"] * 100)
assert "numba" not in sys.modules
feed([b"x", b"yy"] * 20_000)
WALKER.start_compiling().join()
assert WALKER._compiled is not None
feed([b"x", b"yy"] * 20_000)
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={"NUMBA_CACHE_DIR": str(tmp_path)}, timeout=300)
    assert list(tmp_path.rglob("*.nbc")), "the compiled walk is kept where NUMBA_CACHE_DIR says"


def test_an_unknown_prefix_type_is_refused() -> None:
    with pytest.raises(ValidationError, match="prefix_type"):
        SPEC.validate({"prefix_type": "u64le"})
    with pytest.raises(ValidationError, match="prefix_type"):
        SPEC.validate({})


def test_bounds_of_a_large_buffer_are_those_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    framing = _framing("varint")
    stream = framing.joiner().join(pa.array(RECORDS, pa.binary()))
    expected = framing.bounds(stream)
    monkeypatch.setattr(module, "LARGE", 10)
    for found, known in zip(framing.bounds(stream), expected, strict=True):
        assert found.tolist() == known.tolist()
