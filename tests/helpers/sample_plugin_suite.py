"""Runs the conformance suite on the framing of the sample plugin; collected by a pytest run that has the package on its
path."""

from __future__ import annotations

from hypothesis import strategies as st

from helpers.framing_conformance import FramingCase, FramingConformance


class TestNetstring(FramingConformance):
    case = FramingCase(
        name="netstring",
        records=[b"hello", b"", b"1:a,", b"\xff" * 300, b","],
        any_record=st.binary(max_size=120),
        malformed=[b"x", b"5;hello", b"1:ab", b":", b"12345678901:", b"-1:,"],
    )
