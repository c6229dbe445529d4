"""arrow_ipc_streaming: streams written and read back by pyarrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.contracts.framing import cut
from gauss.model.errors import FrameError
from gauss.plugins.framings.arrow_ipc_streaming.framing import ArrowIpcStreamingFraming
from gauss.plugins.framings.arrow_ipc_streaming.messages import END_OF_STREAM
from gauss.plugins.framings.arrow_ipc_streaming.spec import ArrowIpcStreamingConfig
from helpers.framing_conformance import LIMIT, FramingCase, FramingConformance, binary, cut_stream


def stream_of(batches: list[pa.RecordBatch], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def rows_of(stream: bytes) -> list[dict[str, Any]]:
    return pa.ipc.open_stream(stream).read_all().to_pylist()  # type: ignore[no-any-return]


def words(values: list[str], dictionary: list[str]) -> pa.RecordBatch:
    indexes = pa.array([dictionary.index(value) for value in values], pa.int32())
    return pa.record_batch({"word": pa.DictionaryArray.from_arrays(indexes, pa.array(dictionary))})


NUMBERS = pa.record_batch({"n": pa.array([1, 2, 3]), "s": pa.array(["a", None, "ccc"])})
MORE = pa.record_batch({"n": pa.array([4]), "s": pa.array(["dddd"])})
OTHER = pa.record_batch({"x": pa.array([1.5])})
GROWING = [
    words(["a", "b"], ["a", "b"]),
    words(["b"], ["a", "b"]),
    words(["c", "a"], ["a", "b", "c"]),
    words(["z"], ["z", "y"]),
]


class TestArrowIpcStreaming(FramingConformance):
    case = FramingCase(
        name="arrow_ipc_streaming",
        records=[
            stream_of([NUMBERS]),
            stream_of([MORE]),
            stream_of([OTHER]),
            stream_of([GROWING[0]]),
            stream_of([GROWING[2]]),
            stream_of([NUMBERS], compression="zstd"),
        ],
        unfit=[
            b"",
            b"{}",
            stream_of([NUMBERS, MORE]),
            stream_of([NUMBERS])[:-9],
            stream_of([NUMBERS]) + stream_of([MORE]),
            END_OF_STREAM,
        ],
        malformed=[
            b"\xff\x00",
            b"\x00\x01\x02\x03",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\x08\x00\x00\x00" + b"\xff" * 8,
            b"\xff\xff\xff\xff\x08\x00\x00\x00" + b"\x00" * 8,
            END_OF_STREAM + stream_of([NUMBERS])[-200:],
        ],
    )


@pytest.fixture
def framing() -> ArrowIpcStreamingFraming:
    return ArrowIpcStreamingFraming(ArrowIpcStreamingConfig())


def test_each_batch_becomes_a_stream_of_its_own(framing: ArrowIpcStreamingFraming) -> None:
    records, error = cut_stream(framing, [stream_of([NUMBERS, MORE])])
    assert error is None
    assert records == [stream_of([NUMBERS]), stream_of([MORE])]


@pytest.mark.parametrize("emit_dictionary_deltas", [False, True])
def test_a_record_holds_the_dictionaries_as_they_are_at_its_batch(
    framing: ArrowIpcStreamingFraming, emit_dictionary_deltas: bool
) -> None:
    stream = stream_of(GROWING, emit_dictionary_deltas=emit_dictionary_deltas)
    records, error = cut_stream(framing, [stream])
    assert error is None
    assert [rows_of(record) for record in records] == [batch.to_pylist() for batch in GROWING]
    joined = framing.joiner().join(binary(records))
    assert joined + END_OF_STREAM == stream
    assert rows_of(joined) == rows_of(stream)


def test_schema_and_dictionaries_equal_to_the_last_are_left_out(framing: ArrowIpcStreamingFraming) -> None:
    record = stream_of([GROWING[0]])
    joiner = framing.joiner()
    first, second = joiner.join(binary([record])), joiner.join(binary([record]))
    assert len(second) < len(first) / 2
    assert rows_of(first + second) == 2 * GROWING[0].to_pylist()


def test_another_schema_begins_a_new_stream(framing: ArrowIpcStreamingFraming) -> None:
    records = [stream_of([NUMBERS]), stream_of([OTHER])]
    joined = framing.joiner().join(binary(records))
    assert joined == stream_of([NUMBERS]) + stream_of([OTHER])[: -len(END_OF_STREAM)]
    reader = pa.BufferReader(joined)
    assert pa.ipc.open_stream(reader).read_all().to_pylist() == NUMBERS.to_pylist()
    assert pa.ipc.open_stream(reader).read_all().to_pylist() == OTHER.to_pylist()


def test_a_stream_may_end_without_its_marker_and_hold_no_batch(framing: ArrowIpcStreamingFraming) -> None:
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, NUMBERS.schema).close()
    empty = bytes(sink.getvalue())
    assert cut_stream(framing, [empty]) == ([], None)
    assert cut_stream(framing, [empty[: -len(END_OF_STREAM)]]) == ([], None)
    assert cut_stream(framing, [stream_of([NUMBERS])[: -len(END_OF_STREAM)]]) == ([stream_of([NUMBERS])], None)


def test_a_message_above_the_limit_is_refused_before_it_has_come(framing: ArrowIpcStreamingFraming) -> None:
    _, error = cut_stream(framing, [b"\xff\xff\xff\xff\xff\xff\xff\x7f"])
    assert error is not None
    assert error.reason == "too_long"
    big = stream_of([pa.record_batch({"n": pa.array(range(10_000))})])
    records, error = cut_stream(framing, [big[:2000]], limit=20_000)
    assert records == []
    assert error is not None
    assert error.reason == "too_long"


@given(st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_damaged_metadata_is_an_error_and_never_a_crash(place: int, damage: bytes) -> None:
    stream = bytearray(stream_of(GROWING))
    stream[place : place + len(damage)] = damage
    _, error = cut_stream(ArrowIpcStreamingFraming(ArrowIpcStreamingConfig()), [bytes(stream)], LIMIT)
    assert error is None or error.reason in {"bad_frame", "too_long", "truncated"}


def test_joining_what_is_no_stream_is_refused(framing: ArrowIpcStreamingFraming) -> None:
    with pytest.raises(FrameError, match="Arrow"):
        framing.joiner().join(binary([b"{}"]))


def test_dictionaries_above_the_limit_together_are_refused(framing: ArrowIpcStreamingFraming) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["x" * 40_000]))
    stream = stream_of([pa.record_batch({f"c{index}": column for index in range(20)})])
    records, error = cut_stream(framing, [stream[at : at + 1000] for at in range(0, len(stream), 1000)], 100_000)
    assert (records, error and error.reason) == ([], "too_long")
    splitter = framing.splitter(1 << 20)
    assert sum(frames.count for frames in cut(splitter, stream)) == 1
    assert splitter.held() == 0  # the stream has ended


def test_batches_that_repeat_large_dictionaries_are_handed_out_a_few_at_a_time(
    framing: ArrowIpcStreamingFraming,
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["x" * 400_000]))
    stream = stream_of([pa.record_batch({"c": column})] * 100)
    given = list(cut(framing.splitter(1 << 20), stream))
    assert sum(frames.count for frames in given) == 100
    assert max(frames.payload.nbytes for frames in given) < 3 << 20  # type: ignore[union-attr]
