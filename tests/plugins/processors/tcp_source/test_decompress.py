from __future__ import annotations

import gzip
import itertools
import random

import lz4.frame
import pytest
import zstandard

from gauss.model.errors import FrameError
from gauss.plugins.processors.tcp_source.decompress import DECOMPRESSORS, ZSTD_SLICE_BYTES, Decompressor

PLAIN = b"".join(b"line %d of something that repeats\n" % number for number in range(20_000))
HALF = len(PLAIN) // 2
COMPRESS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress, "lz4": lz4.frame.compress}
KINDS = list(COMPRESS)


def fed(decompressor: Decompressor, data: bytes, cuts: list[int]) -> bytes:
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:stop] for start, stop in itertools.pairwise(places)]
    return b"".join(b"".join(decompressor.feed(piece)) for piece in pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_cut_anywhere_comes_out_whole(kind: str) -> None:
    packed = COMPRESS[kind](PLAIN)
    for seed in range(20):
        cuts = random.Random(seed).choices(range(len(packed)), k=seed)
        decompressor = DECOMPRESSORS[kind]()
        assert fed(decompressor, packed, cuts) == PLAIN
        decompressor.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_alone_comes_out_whole(kind: str) -> None:
    packed = COMPRESS[kind](PLAIN[:2000])
    decompressor = DECOMPRESSORS[kind]()
    assert fed(decompressor, packed, list(range(1, len(packed)))) == PLAIN[:2000]
    decompressor.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_members_and_frames_one_behind_the_other_are_one_stream(kind: str) -> None:
    packed = COMPRESS[kind](PLAIN[:HALF]) + COMPRESS[kind](b"") + COMPRESS[kind](PLAIN[HALF:])
    for seed in range(5):
        decompressor = DECOMPRESSORS[kind]()
        assert fed(decompressor, packed, random.Random(seed).choices(range(len(packed)), k=5)) == PLAIN
        decompressor.finish()


def test_zeros_between_gzip_members_are_padding() -> None:
    decompressor = DECOMPRESSORS["gzip"]()
    packed = gzip.compress(b"one") + b"\0" * 500 + gzip.compress(b"two") + b"\0" * 12
    assert fed(decompressor, packed, []) == b"onetwo"
    decompressor.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_that_ends_inside_a_frame_is_truncated(kind: str) -> None:
    decompressor = DECOMPRESSORS[kind]()
    fed(decompressor, COMPRESS[kind](PLAIN)[:-20], [])
    with pytest.raises(FrameError) as caught:
        decompressor.finish()
    assert caught.value.reason == "truncated"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("good", [b"", b"something good\n"])
def test_garbage_is_bad_compression_with_its_bytes(kind: str, good: bytes) -> None:
    decompressor = DECOMPRESSORS[kind]()
    found = b""
    with pytest.raises(FrameError) as caught:
        for piece in decompressor.feed((COMPRESS[kind](good) if good else b"") + b"these are plain words"):
            found += piece
    assert found == good
    assert caught.value.reason == "bad_compression"
    assert b"plain words" in caught.value.bad


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_comes_out_in_bounded_pieces(kind: str) -> None:
    bomb = COMPRESS[kind](bytes(64 << 20))
    sizes: list[int] = []
    decompressor = DECOMPRESSORS[kind]()
    for start in range(0, len(bomb), 1 << 18):
        sizes += [len(piece) for piece in decompressor.feed(bomb[start : start + (1 << 18)])]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= ZSTD_SLICE_BYTES // 4 * (128 << 10)
