"""auto: detects the framing from the first bytes of a stream, however these arrive."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from gauss import registry
from gauss.contracts.framing import Framing, FramingSpec
from gauss.plugins.formats.auto.codec import detect
from gauss.plugins.formats.avro.container import close_container
from helpers.framing_conformance import FramingCase, FramingConformance, binary, cut_stream, every_split


def arrow(*values: int) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"n": pa.array(values)})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


AVRO = [close_container('{"type": "long"}', bytes([2 * number]), 1) for number in range(3)]
ARROW = [arrow(1), arrow(2, 3), arrow(*range(50))]
TEXT = [b'{"a": 1}', b"a,b", b"Obj", b"\xff\xff", "é".encode(), b"x" * 3000]


class TestText(FramingConformance):
    case = FramingCase(
        "auto",
        TEXT,
        any_record=st.binary(max_size=80).map(lambda record: b"t" + record.replace(b"\n", b" ")),
        unfit=[b"two\nlines"],
    )


class TestAvro(FramingConformance):
    case = FramingCase("auto", [*AVRO, close_container('{"type": "string"}', b"\2x", 1)], malformed=[b"Oops", b"\3\3"])


class TestArrow(FramingConformance):
    case = FramingCase("auto", ARROW, malformed=[b"\xff\xff\xff\xfe", b"{}"])


def build(name: str = "auto", **config: object) -> Framing:
    spec = registry.spec(FramingSpec, name)
    made: Framing = registry.build(spec, spec.validate(config))
    return made


@pytest.mark.parametrize(
    ("records", "framing", "kind"),
    [(TEXT[:2], "newline", "json"), (AVRO, "avro_container", "avro"), (ARROW, "arrow_ipc_streaming", "arrow")],
)
def test_a_stream_is_cut_as_by_the_framing_of_its_format(records: list[bytes], framing: str, kind: str) -> None:
    named = build(framing)
    stream = bytes(named.joiner().join(binary(records)))
    for pieces in every_split(stream):
        found, error = cut_stream(build(), pieces)
        assert (found, error) == (records, None)
    assert detect(records[0]) == kind


@pytest.mark.parametrize("record", [b"O", b"Ob", b"Obj", b"\xff", b"\xff\xff\xff", b"", b"Obk", b"\xff\xfe"])
def test_text_that_begins_like_a_container_is_a_line_as_soon_as_it_ends(record: bytes) -> None:
    splitter = build().splitter(100)
    for byte in record:
        assert splitter.feed(bytes([byte])).count == 0
        assert splitter.held() >= 1
    frames = splitter.feed(b"\n")
    assert frames.payload.to_pylist() == [record]  # type: ignore[union-attr]
    splitter.finish()


def test_half_a_beginning_is_truncated() -> None:
    assert [cut_stream(build(), [b"Ob"])[1].reason, cut_stream(build(), [b""])[1]] == ["truncated", None]  # type: ignore[union-attr]


def test_lines_end_with_the_delimiter_that_is_named() -> None:
    assert cut_stream(build(delimiter="||"), [b"a|b||c||"]) == ([b"a|b", b"c"], None)
