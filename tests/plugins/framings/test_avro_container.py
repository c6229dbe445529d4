"""avro_container: headers and blocks written by hand after the Avro specification."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gauss.contracts.framing import cut
from gauss.model.errors import FrameError
from gauss.plugins.framings.avro_container.framing import AvroContainerFraming
from gauss.plugins.framings.avro_container.spec import AvroContainerConfig
from helpers.framing_conformance import LIMIT, FramingCase, FramingConformance, binary, cut_stream

SYNC = bytes(range(16))
OTHER_SYNC = bytes(range(100, 116))


def long(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def header(*entries: tuple[bytes, bytes], sync: bytes = SYNC, sized: bool = False) -> bytes:
    """Magic, metadata (`sized`: with a negative count and the bytes of the map block), sync."""
    body = b"".join(text(key) + text(value) for key, value in entries)
    count = long(-len(entries)) + long(len(body)) if sized else long(len(entries))
    return b"Obj\x01" + count + body + long(0) + sync


def block(rows: int, data: bytes, sync: bytes = SYNC) -> bytes:
    return long(rows) + text(data) + sync


SCHEMA = (b"avro.schema", b'{"type": "long"}')
CODEC = (b"avro.codec", b"deflate")
HEADER = header(SCHEMA, CODEC)
SIZED = header(SCHEMA, CODEC, sync=OTHER_SYNC, sized=True)


class TestAvroContainer(FramingConformance):
    case = FramingCase(
        name="avro_container",
        records=[
            HEADER + block(3, b"abc"),
            HEADER + block(0, b""),
            SIZED + block(200, b"x" * 200, OTHER_SYNC),
            HEADER + block(1, b"Obj\x01"),
            header((b"avro.schema", b"s" * 100)) + block(1, b"y"),
        ],
        unfit=[
            b"",
            b"{}",
            HEADER,
            block(1, b"a"),
            HEADER + block(1, b"a") + block(1, b"b"),
            HEADER + block(1, b"a", OTHER_SYNC),
            HEADER + block(1, b"a")[:-1],
        ],
        malformed=[
            block(1, b"a", OTHER_SYNC),
            b"Oops",
            b"Ox",
            b"Obj\x02",
            long(-3) + long(1),
            long(1) + long(-1),
            b"\x80" * 10,
            b"Obj\x01" + long(1) + long(-5),
            b"Obj\x01" + long(2_000),
        ],
    )


@pytest.fixture
def framing() -> AvroContainerFraming:
    return AvroContainerFraming(AvroContainerConfig())


def test_each_block_becomes_a_record_with_the_header(framing: AvroContainerFraming) -> None:
    stream = HEADER + block(1, b"a") + block(2, b"bb")
    assert cut_stream(framing, [stream]) == ([HEADER + block(1, b"a"), HEADER + block(2, b"bb")], None)


def test_a_header_equal_to_the_last_is_left_out(framing: AvroContainerFraming) -> None:
    joiner = framing.joiner()
    assert joiner.join(binary([HEADER + block(1, b"a"), HEADER + block(1, b"b")])) == HEADER + block(1, b"a") + block(
        1, b"b"
    )
    assert joiner.join(binary([HEADER + block(1, b"c")])) == block(1, b"c")
    assert joiner.join(binary([SIZED + block(1, b"d", OTHER_SYNC)])) == SIZED + block(1, b"d", OTHER_SYNC)


def test_a_stream_of_a_header_alone_is_whole_and_empty(framing: AvroContainerFraming) -> None:
    assert cut_stream(framing, [HEADER]) == ([], None)


def test_metadata_in_several_map_blocks_is_read(framing: AvroContainerFraming) -> None:
    first = long(1) + text(b"a") + text(b"1")
    second = text(b"b") + text(b"2")
    odd = b"Obj\x01" + first + long(-1) + long(len(second)) + second + long(0) + SYNC
    assert cut_stream(framing, [odd + block(1, b"x")]) == ([odd + block(1, b"x")], None)


def test_a_header_above_the_limit_is_refused_before_it_has_come(framing: AvroContainerFraming) -> None:
    start = b"Obj\x01" + long(1) + text(b"avro.schema") + long(LIMIT + 1)
    _, error = cut_stream(framing, [start])
    assert error is not None
    assert error.reason == "too_long"


def test_joining_what_is_no_container_is_refused(framing: AvroContainerFraming) -> None:
    with pytest.raises(FrameError, match="Avro"):
        framing.joiner().join(pa.array([b"{}"], pa.binary()))


def test_blocks_that_repeat_a_large_header_are_handed_out_a_few_at_a_time() -> None:
    large = header((b"avro.schema", b"s" * 500_000))
    splitter = AvroContainerFraming(AvroContainerConfig()).splitter(LIMIT)
    stream = large + block(1, b"a") * 1_000
    given = list(cut(splitter, stream))
    assert sum(frames.count for frames in given) == 1_000
    assert max(frames.payload.nbytes for frames in given) < 3 << 20  # type: ignore[union-attr]
    assert splitter.held() == len(large)
    splitter.finish()


def test_a_header_above_a_mebibyte_is_refused() -> None:
    records, error = cut_stream(
        AvroContainerFraming(AvroContainerConfig()), [header((b"avro.schema", b"s" * (2 << 20)))], 16 << 20
    )
    assert (records, error and error.reason) == ([], "too_long")
