"""The conformance suite of framings. Tests subclass `FramingConformance` and set a case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Frames, Framing, FramingSpec, cut
from gauss.model.errors import FrameError
from helpers.cases import cases

LIMIT = 1 << 20


@dataclass(frozen=True)
class FramingCase:
    """A configured framing with records for its edge cases."""

    name: str
    """The plugin's name in a config."""
    records: list[bytes]
    """Records that the framing can carry, of different sizes if it allows them."""
    config: dict[str, Any] = field(default_factory=dict)
    any_record: st.SearchStrategy[bytes] | None = None
    """Further records that it can carry. Default: those above."""
    unfit: list[bytes] = field(default_factory=list)
    """Records that it cannot carry."""
    malformed: list[bytes] = field(default_factory=list)
    """Bytes that are never the beginning of a frame."""

    def build(self) -> Framing:
        spec = registry.spec(FramingSpec, self.name)
        made: Framing = registry.build(spec, spec.validate(self.config))
        assert made.raw == spec.raw
        return made

    def lists(self) -> st.SearchStrategy[list[bytes]]:
        any_record = st.sampled_from(self.records) if self.any_record is None else self.any_record
        return st.lists(any_record, max_size=12)


def binary(records: list[bytes]) -> pa.BinaryArray:
    return pa.array(records, pa.binary())


def contents(framing: Framing, frames: Frames) -> list[bytes]:
    """The records that a splitter returned."""
    if not framing.raw:
        assert len(frames.payload) == frames.count
        return frames.payload.to_pylist()  # type: ignore[no-any-return, union-attr]
    found = Chunk(frames.payload, frames.count, 0, framing).data().to_pylist()
    assert len(found) == frames.count
    return found  # type: ignore[no-any-return]


def cut_stream(
    framing: Framing, pieces: Iterable[bytes | memoryview], limit: int = LIMIT
) -> tuple[list[bytes], FrameError | None]:
    """The records of a stream that arrives in pieces, and the error that ended it."""
    splitter = framing.splitter(limit)
    records: list[bytes] = []
    try:
        for piece in pieces:
            for frames in cut(splitter, piece):
                records += contents(framing, frames)
                if frames.bounds is not None:
                    assert [each.tolist() for each in frames.bounds] == [
                        each.tolist() for each in framing.bounds(memoryview(frames.payload))
                    ]
            assert splitter.held() >= 0
        splitter.finish()
    except FrameError as error:
        return records, error
    return records, None


def pieces_at(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def every_split(stream: bytes) -> list[list[bytes]]:
    """The stream cut in two at every byte, and cut into single bytes."""
    step = max(1, len(stream) // 800)  # containers are too long to cut at every byte
    two = [[stream[:at], stream[at:]] for at in range(0, len(stream) + 1, step)]
    return [*two, [stream[at : at + 1] for at in range(len(stream))]]


class FramingConformance:
    case: FramingCase

    @pytest.fixture
    def framing(self) -> Framing:
        return self.case.build()

    @pytest.fixture
    def stream(self, framing: Framing) -> bytes:
        return bytes(framing.joiner().join(binary(self.case.records)))

    def test_joined_records_split_into_the_same_records(self, framing: Framing, stream: bytes) -> None:
        assert cut_stream(framing, [stream]) == (self.case.records, None)

    def test_joining_in_several_batches_gives_the_same_stream(self, framing: Framing, stream: bytes) -> None:
        joiner = framing.joiner()
        assert b"".join(joiner.join(binary([record])) for record in self.case.records) == stream

    def test_joining_a_slice_of_an_array_takes_only_its_records(self, framing: Framing) -> None:
        middle = binary(self.case.records).slice(1, 2)
        joined = framing.joiner().join(middle)
        assert cut_stream(framing, [joined]) == (self.case.records[1:3], None)

    def test_no_records_join_to_no_bytes(self, framing: Framing) -> None:
        assert framing.joiner().join(binary([])) == b""
        assert cut_stream(framing, []) == ([], None)
        assert cut_stream(framing, [b"", b""]) == ([], None)

    def test_a_split_at_any_byte_changes_nothing(self, framing: Framing, stream: bytes) -> None:
        for pieces in every_split(stream):
            assert cut_stream(framing, pieces) == (self.case.records, None)

    @given(data=st.data())
    @settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    def test_any_records_cut_anywhere_come_out_as_they_were(self, data: st.DataObject) -> None:
        framing = self.case.build()
        records = data.draw(self.case.lists())
        assert framing.unfit(binary(records)) is None
        stream = bytes(framing.joiner().join(binary(records)))
        cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
        assert cut_stream(framing, pieces_at(stream, cuts)) == (records, None)

    @given(data=st.data())
    @settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    def test_any_bytes_give_the_same_verdict_wherever_they_are_cut(self, data: st.DataObject) -> None:
        framing = self.case.build()
        good = bytes(framing.joiner().join(binary(data.draw(self.case.lists()))))
        stream = good + data.draw(st.binary(max_size=64))
        limit = data.draw(st.sampled_from([8, 40, LIMIT]))
        records, error = cut_stream(framing, [stream], limit)
        cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
        again, same = cut_stream(framing, pieces_at(stream, cuts), limit)
        assert again == records
        assert (same and same.reason) == (error and error.reason)

    def test_a_buffer_that_the_caller_fills_anew_does_not_change_records(self, framing: Framing, stream: bytes) -> None:
        half = len(stream) // 2
        splitter = framing.splitter(LIMIT)
        given = []
        for piece in (stream[:half], stream[half:]):
            buffer = bytearray(piece)
            given.append(splitter.feed(memoryview(buffer)))
            buffer[:] = bytes(len(buffer))
        assert [record for frames in given for record in contents(framing, frames)] == self.case.records

    def test_a_stream_that_ends_in_mid_record_is_truncated(self, framing: Framing, stream: bytes) -> None:
        for end in range(0, len(stream), max(1, len(stream) // 500)):
            records, error = cut_stream(framing, [stream[:end]])
            assert records == self.case.records[: len(records)]
            if error is not None:
                assert error.reason == "truncated"
                assert stream[:end].endswith(error.bad)
                assert error.bad
                assert error.message
                assert error.hint
        _, error = cut_stream(framing, [stream[:-1]])
        assert error is not None

    def test_a_record_above_the_limit_is_refused_wherever_it_is_cut(self, framing: Framing) -> None:
        longest = max(self.case.records, key=len)
        small = min(self.case.records, key=len)
        limit = len(longest) - 1
        good = [small] if len(small) <= limit else []
        stream = bytes(framing.joiner().join(binary([*good, longest, small])))
        for pieces in every_split(stream):
            records, error = cut_stream(framing, pieces, limit)
            assert records == good
            assert error is not None
            assert error.reason == "too_long"
            assert error.bad in stream
            assert str(limit) in error.message
        assert cut_stream(framing, [framing.joiner().join(binary([longest]))], len(longest)) == ([longest], None)

    def test_bad_bytes_come_after_the_whole_records_before_them(self, framing: Framing, stream: bytes) -> None:
        for bad in self.case.malformed:
            for pieces in ([stream + bad], [stream, bad], *every_split(stream + bad)[-1:]):
                records, error = cut_stream(framing, pieces)
                assert records == self.case.records
                assert error is not None
                assert error.reason == "bad_frame"
                assert error.bad
                assert error.bad in stream + bad

    def test_an_error_is_raised_again_by_every_later_call(self, framing: Framing, stream: bytes) -> None:
        for bad in self.case.malformed:
            splitter = framing.splitter(LIMIT)
            assert splitter.feed(stream + bad).count == len(self.case.records)
            for later in (b"", stream):
                with pytest.raises(FrameError):
                    splitter.feed(later)
            with pytest.raises(FrameError):
                splitter.finish()

    def test_unfit_marks_the_records_that_do_not_fit(self, framing: Framing) -> None:
        assert framing.unfit(binary(self.case.records)) is None
        assert framing.unfit(binary([])) is None
        assert not (framing.carries_all and self.case.unfit)
        for record in self.case.unfit:
            bad = framing.unfit(binary([self.case.records[0], record, self.case.records[1]]).slice(0))
            assert bad is not None
            assert bad.tolist() == [False, True, False]

    def test_raw_frames_can_be_sliced_and_sent_as_they_are(self, framing: Framing, stream: bytes) -> None:
        if not framing.raw:
            return
        chunk = Chunk(stream, len(self.case.records), 5, framing)
        assert chunk.framed(framing) is chunk
        for start in range(chunk.count):
            for count in range(chunk.count - start + 1):
                part = chunk.slice(start, count)
                expected = self.case.records[start : start + count]
                assert part.data().to_pylist() == expected
                assert bytes(part.framed(framing).payload) == framing.joiner().join(binary(expected))

    def test_equal_configs_have_equal_keys(self, framing: Framing) -> None:
        assert framing.key == self.case.build().key
        assert hash(framing.key) == hash(self.case.build().key)
