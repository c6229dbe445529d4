from __future__ import annotations

import gzip
import socket
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauss.plugins.processors.tcp_source.encoding import SAMPLE_BYTES, Detected, detect
from helpers.cases import cases
from helpers.edges import NEWLINE, Bench, receive, receive_all, records
from helpers.waiting import stays, wait_until

ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
MARKS = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
TEXT = "bid 1.25 ੁĀ\n語 текст\n\nthe last Ċ line\n" * 8
"""U+0A41 before U+0100, and U+010A, contain the bytes of a line feed."""


def lines(text: str, encoding: str) -> list[bytes]:
    return [line.encode(encoding) for line in text.split("\n")[:-1]]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(places), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds)]


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_encoding_is_told_by_a_mark_or_by_statistics_whatever_the_split(encoding: str, marked: bool) -> None:
    data = (MARKS[encoding] if marked else b"") + TEXT.encode(encoding)
    for place in range(len(data)):
        found = detect(data[:place], final=False) or detect(data, final=True)
        assert found == (encoding, len(MARKS[encoding]) if marked else 0)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Ελληνικά κείμενο χωρίς " * 6, "utf-16-be"), ("統計資料顯示語言變化" * 7, "utf-8"), ("абвгд" * 20, "utf-16-le")],
)
def test_scripts_without_latin_letters_are_told_too(text: str, encoding: str) -> None:
    assert detect(text.encode(encoding), final=False) == Detected(encoding)  # type: ignore[arg-type]


def test_few_bytes_wait_and_nothing_at_all_is_utf8() -> None:
    assert detect(b"", final=False) is None
    assert detect(b"\xff", final=False) is None
    assert detect(b"a" * (SAMPLE_BYTES - 1), final=False) is None
    assert detect(b"", final=True) == Detected("utf-8")
    assert detect(b"\x00\x01\x02", final=True) is not None


@settings(deadline=None, max_examples=cases(200))
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=4))
def test_what_is_found_does_not_depend_on_how_bytes_came(data: bytes, places: list[int]) -> None:
    head, found = b"", None
    for piece in cut(data, [min(place, len(data)) for place in places]):
        head += piece
        found = found or detect(head, final=False)
    assert (found or detect(head, final=True)) == (detect(data, final=False) or detect(data, final=True))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_source_cuts_lines_of_any_encoding_however_they_are_split(bench: Bench, encoding: str, step: int) -> None:
    topic = bench.topic()
    source = bench.source(topic, encoding="auto", detect_timeout="20s")
    data = MARKS[encoding] + TEXT.encode(encoding)
    with source.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(data), step):
            sock.sendall(data[place : place + step])
        wait_until(lambda: topic.version() == len(lines(TEXT, encoding)))
        assert list(source.status.clients.values()) == [{"encoding": encoding}]
    assert records(topic) == lines(TEXT, encoding)
    wait_until(lambda: not source.status.clients)
    assert bench.dead == []


def test_nothing_is_emitted_before_the_phase_ends_and_the_phase_is_seen(bench: Bench) -> None:
    topic = bench.topic()
    patient = bench.source(topic, encoding="auto", detect_timeout="600s")
    with patient.connect() as sock:
        wait_until(lambda: patient.status.shown() == "detecting encoding")
        sock.sendall(b"one\ntwo\n")
        stays(lambda: (topic.version(), patient.status.shown()) == (0, "detecting encoding"), 0.1)
    topic = bench.topic()
    source = bench.source(topic, encoding="auto", detect_timeout="100ms")
    with source.connect() as sock:
        sock.sendall(b"one\ntwo\n")
        wait_until(lambda: topic.version() == 2)  # the time is over
        assert source.status.shown() == "running"
        sock.sendall(b"three\n")
        wait_until(lambda: topic.version() == 3)
        with source.connect():
            wait_until(lambda: source.status.connections == 2)
            assert source.status.shown() == "running"  # the other connection is past detection


def test_a_short_stream_that_ends_is_decided_by_what_there_is(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, encoding="auto", detect_timeout="20s")
    with source.connect() as sock:
        sock.sendall("hi\nyou\n".encode("utf-16-be"))
        sock.shutdown(socket.SHUT_WR)
        receive_all(sock)
    assert records(topic) == ["hi".encode("utf-16-be"), "you".encode("utf-16-be")]


def test_half_a_line_of_an_undecided_stream_is_a_dead_letter(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, encoding="auto", detect_timeout="20s", idle_timeout="20s")
    with source.connect() as sock:
        sock.sendall(b"whole\nhalf")
    wait_until(lambda: bench.dead)
    assert (records(topic), bench.dead[0].data) == ([b"whole"], b"half")


def test_a_compressed_stream_is_looked_at_after_it_is_decompressed(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, encoding="auto", compression="gzip")
    with source.connect() as sock:
        sock.sendall(gzip.compress(MARKS["utf-16-le"] + TEXT.encode("utf-16-le")))
    wait_until(lambda: topic.version() == len(lines(TEXT, "utf-16-le")))
    assert records(topic) == lines(TEXT, "utf-16-le")


def test_connections_of_different_encodings_share_a_source_and_a_sink_cuts_them_again(bench: Bench) -> None:
    topic = bench.topic()
    source = bench.source(topic, encoding="auto")
    for encoding in ENCODINGS:
        with source.connect() as sock:
            sock.sendall(MARKS[encoding] + "a\nb\n".encode(encoding))
            sock.shutdown(socket.SHUT_WR)
            receive_all(sock)
    assert records(topic) == [each for encoding in ENCODINGS for each in lines("a\nb\n", encoding)]
    with bench.sink(topic, output={**NEWLINE, "delimiter": "||"}).connect() as sock:
        assert receive(sock, 6) == b"a||b||"
