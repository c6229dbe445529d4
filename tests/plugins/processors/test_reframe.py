"""reframe: records are split again, and bytes that fill no frame become dead letters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Changed
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import FrameError
from gauss.plugins.processors.reframe.transform import ReframeTransform

FIXED = {"framing": "fixed_size", "frame_size": 10}
LINES = {"framing": "newline", "delimiter": "\n"}


def reframe(output: dict[str, Any], **config: Any) -> ReframeTransform:
    spec = registry.spec(ProcessorSpec, "reframe")
    made: ReframeTransform = registry.build(spec, spec.validate({"output": output, **config}))
    return made


def apply(transform: ReframeTransform, records: list[bytes], ts_ms: int | list[int] = 5) -> Changed:
    times = ts_ms if isinstance(ts_ms, int) else np.array(ts_ms)
    return transform.apply(Chunk(pa.array(records, pa.binary()), len(records), times), 100)


def test_a_record_of_100_bytes_becomes_ten_of_10() -> None:
    record = bytes(range(100))
    changed = apply(reframe(FIXED), [record, record], [7, 8])
    assert changed.dead == []
    assert changed.chunk is not None
    assert changed.chunk.count == 20
    assert changed.chunk.data().to_pylist() == 2 * [record[at : at + 10] for at in range(0, 100, 10)]
    assert changed.chunk.batch(0)["ts_ms"].to_pylist() == [7] * 10 + [8] * 10


def test_whole_multiples_are_cut_without_a_copy() -> None:
    data = pa.array([b"x" * 100] * 3, pa.binary())
    chunk = reframe(FIXED).apply(Chunk(data, 3, 5), 0).chunk
    assert chunk is not None
    assert pa.py_buffer(chunk.payload).address == data.buffers()[2].address


@given(st.lists(st.binary(max_size=35), max_size=8), st.sampled_from(["dead_letter", "pad"]))
def test_records_of_any_size_are_cut_each_for_itself(records: list[bytes], on_error: str) -> None:
    times = list(range(len(records)))
    changed = apply(reframe(FIXED, on_frame_error=on_error), records, times)
    expected, kept_times, left = [], [], []
    for index, record in enumerate(records):
        frames = [record[at : at + 10] for at in range(0, len(record), 10)]
        if frames and len(frames[-1]) < 10:
            if on_error == "pad":
                frames[-1] = frames[-1].ljust(10, b"\0")
            else:
                left.append((100 + index, index, frames.pop()))
        expected += frames
        kept_times += [index] * len(frames)
    found = changed.chunk.data().to_pylist() if changed.chunk else []
    assert found == expected
    assert (changed.chunk.batch(0)["ts_ms"].to_pylist() if changed.chunk else []) == kept_times
    assert [(letter.offset, letter.ts_ms, letter.data) for letter in changed.dead] == left
    assert all((letter.stage, letter.reason) == ("frame", "truncated") for letter in changed.dead)


def test_fail_raises_what_was_expected_and_found() -> None:
    with pytest.raises(FrameError, match=r"5 bytes are left .* multiple of frame_size = 10"):
        apply(reframe(FIXED, on_frame_error="fail"), [b"x" * 10, b"x" * 15])
    with pytest.raises(FrameError, match="mid-record"):
        apply(reframe(LINES, on_frame_error="fail"), [b"a\nb"])


@given(st.lists(st.text("ab\n", max_size=8).map(str.encode), max_size=6))
def test_lines_inside_records_become_records(records: list[bytes]) -> None:
    changed = apply(reframe(LINES), records)
    lines = [line for record in records for line in record.split(b"\n")[:-1]]
    rests = [record.split(b"\n")[-1] for record in records if record.split(b"\n")[-1]]
    assert (changed.chunk.data().to_pylist() if changed.chunk else []) == lines
    assert [letter.data for letter in changed.dead] == rests


def test_a_frame_never_reaches_over_two_records() -> None:
    """As one stream they would be split differently: the length in the first record covers bytes of the second."""
    output = {"framing": "length_prefixed", "prefix_type": "u16be"}
    changed = apply(reframe(output), [b"\0\1a\0\3b", b"cd", b"\0\0"])
    assert changed.chunk is not None
    assert changed.chunk.data().to_pylist() == [b"a", b""]
    assert [(letter.offset, letter.data) for letter in changed.dead] == [(100, b"\0\3b"), (101, b"cd")]


def test_a_container_in_a_record_is_cut_into_its_parts() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    changed = apply(reframe({"framing": "arrow_ipc_streaming"}), [bytes(sink.getvalue()), b"{}"])
    assert changed.chunk is not None
    assert [pa.ipc.open_stream(record).read_all().num_rows for record in changed.chunk.data().to_pylist()] == [2, 2]
    assert [(letter.offset, letter.reason, letter.data) for letter in changed.dead] == [(101, "bad_frame", b"{}")]


def test_nothing_left_gives_no_chunk() -> None:
    assert apply(reframe(FIXED), [b"", b""]) == (None, [])


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"output": {}},
        {"output": LINES, "on_frame_error": "pad"},
        {"output": FIXED, "on_frame_error": "ignore"},
        {"output": FIXED, "input": {"framing": "newline"}},
    ],
)
def test_a_config_that_makes_no_sense_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        registry.spec(ProcessorSpec, "reframe").validate(config)
