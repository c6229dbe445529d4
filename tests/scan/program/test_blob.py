"""Blobs: encoded programs round-trip, and anything else raises ConfigError."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.contracts.cursor import (
    Agg,
    KeyRange,
    Last,
    OffsetRange,
    Output,
    Point,
    Prefix,
    Program,
    Seq,
    Step,
    TimeRange,
    View,
)
from gauss.model.errors import ConfigError
from gauss.scan.program.blob import PROGRAM, STEP, decode_program, decode_step, encode_program, encode_step
from gauss.scan.program.parse import parse_scan
from helpers.cases import cases
from helpers.programs import programs

TEXT = 'range(from: 10) | select(.symbol == "BTC" and .bid > 100) | {symbol, mid: (.bid + .ask) / 2} | .mid // 0'

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(0, 2**63 - 1)
NAMES = st.text("abc xyz", min_size=1, max_size=5)
VIEWS: st.SearchStrategy[View] = st.one_of(
    st.builds(Seq, st.none() | NUMBERS),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: OffsetRange(min(pair), max(pair))),
    st.builds(OffsetRange, NUMBERS),
    st.builds(TimeRange, NUMBERS),
    st.builds(KeyRange, st.none() | TEXTS, st.none() | TEXTS),
    st.builds(Prefix, TEXTS),
    st.just(Last()),
    st.builds(Point, TEXTS),
    st.dictionaries(NAMES, st.sampled_from(["count", "sum", "min", "max", "avg"]), min_size=1, max_size=3).map(
        lambda asked: Agg(tuple((name, what, "" if what == "count" else "p.q") for name, what in asked.items()))
    ),
)


@settings(max_examples=cases(150), deadline=None)
@given(programs(), VIEWS, st.booleans(), st.sampled_from(Output), TEXTS)
def test_a_program_comes_back_as_it_was(text: str, view: View, live: bool, output: Output, name: str) -> None:
    parsed = parse_scan(text, live=live, output=output)
    program = Program(view, parsed.mode, output, parsed.stages, name, text)
    blob = encode_program(program)
    back = decode_program(blob)
    assert back == program
    assert back.text == text
    assert repr(back) == repr(program)  # including positions in the text
    assert encode_program(back) == blob


@given(st.binary(max_size=200))
def test_any_bytes_give_a_program_or_a_config_error(data: bytes) -> None:
    for blob in (data, PROGRAM + data):
        try:
            program = decode_program(blob)
        except ConfigError:
            continue
        assert encode_program(program) == blob


@settings(max_examples=cases(400), deadline=None)
@given(st.lists(st.tuples(st.integers(4, 200), st.integers(0, 255)), min_size=1, max_size=3), st.integers(0, 5))
def test_a_damaged_program_is_refused_or_is_another_program(changes: list[tuple[int, int]], cut: int) -> None:
    blob = bytearray(encode_program(parse_scan(TEXT)))
    for at, value in changes:
        blob[at % len(blob)] = value
    damaged = bytes(blob[: len(blob) - cut])
    try:
        program = decode_program(damaged)
    except ConfigError:
        return
    assert encode_program(program) == damaged


@given(st.builds(Step, st.integers(1, 2**40), st.integers(1, 2**40), st.none() | NUMBERS | TEXTS))
def test_a_step_comes_back_as_it_was(step: Step) -> None:
    assert decode_step(encode_step(step)) == step


@given(st.binary(max_size=60))
def test_any_bytes_give_a_step_or_a_config_error(data: bytes) -> None:
    for blob in (data, STEP + data):
        try:
            decode_step(blob)
        except ConfigError:
            continue


def test_a_step_without_parts_has_the_defaults() -> None:
    assert decode_step(STEP) == Step()


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (encode_program(parse_scan(TEXT)), "can't contain a program"),
        (STEP + bytes([16, 0]), "can't change the view"),
        (STEP + bytes([17, 0]), "can't change a stage"),
        (STEP + bytes([18, 1]), "can't change the mode"),
        (STEP + bytes([1, 0]), "limit must be above 0"),
        (STEP + bytes([1, 5, 1, 6]), "unique and in ascending order"),
        (STEP + bytes([3, 1, 4, 1, 65]), "unknown part 4"),
        (STEP + bytes([9]), "unknown part 9"),
        (STEP + bytes([1, 0x85, 0x00]), "not in its shortest encoding"),
        (STEP[:-1] + b"\x02", "expected a step that begins with"),
    ],
)
def test_a_step_that_is_more_than_a_step_is_refused(blob: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode_step(blob)


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (encode_program(parse_scan(TEXT)) + b"\x00", "1 unexpected bytes"),
        (encode_program(parse_scan(TEXT))[:-1], "unexpected end"),
        (PROGRAM + b"\x00\x00\x00\x00\x00\x00\x01\x02\x00" + b"\x07\x00\x00" * 150 + b"\x00\x00", "nested deeper than"),
        (PROGRAM + b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\x0f", "up to 64"),
        (PROGRAM + b"\x00\x00\xff\xff\xff\xff\x0f", "expected a number up to"),
        (b"GSP\x02", "begins with"),
        (PROGRAM + b"\x00" * (1 << 20), "may have"),
    ],
)
def test_a_bad_program_blob_says_what_is_wrong(blob: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode_program(blob)


def test_a_negative_limit_has_no_blob() -> None:
    with pytest.raises(ConfigError, match="from 0"):
        encode_step(Step(-1))
