"""fixed_size."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from pydantic import ValidationError

from gauss.plugins.framings.fixed_size.framing import FixedSizeFraming
from gauss.plugins.framings.fixed_size.spec import SPEC, FixedSizeConfig
from helpers.framing_conformance import FramingCase, FramingConformance, cut_stream


class TestFixedSize(FramingConformance):
    case = FramingCase(
        name="fixed_size",
        config={"frame_size": 4},
        records=[b"abcd", b"\0\0\0\0", b"\n\n\n\n"],
        any_record=st.binary(min_size=4, max_size=4),
        unfit=[b"", b"abc", b"abcde", b"abcdabcd"],
    )


class TestTwoBytes(FramingConformance):
    case = FramingCase(name="fixed_size", config={"frame_size": 2}, records=[b"ab", b"cd", b"ef"], unfit=[b"a"])


def test_frames_above_the_limit_are_refused_at_the_first_byte() -> None:
    _, error = cut_stream(FixedSizeFraming(FixedSizeConfig(frame_size=100)), [b"x"], limit=99)
    assert error is not None
    assert error.reason == "too_long"


@pytest.mark.parametrize("size", [0, -1, "10", 1.5])
def test_a_frame_size_that_is_no_positive_whole_number_is_refused(size: object) -> None:
    with pytest.raises(ValidationError, match="frame_size"):
        SPEC.validate({"frame_size": size})
