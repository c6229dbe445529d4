"""Stream decompression in bounded pieces, safe for concatenated, corrupt and truncated streams and bombs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import lz4.frame
import zstandard

from gauss.model.errors import FrameError

PIECE_BYTES = 1 << 20
"""Maximum size of a decompressed piece."""
ZSTD_SLICE_BYTES = 256
"""zstandard has no output limit, but four input bytes give at most one block of 128 KiB: at most 8 MiB per slice."""
ZSTD_WINDOW_BYTES = 8 << 20
"""The window that the specification requires of every decoder. It is allocated at the start of a frame, so larger ones
are rejected."""
GZIP_HELD_BYTES = 48 << 10
LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
LZ4_LARGEST = 4 << 20


class CompressionError(FrameError):
    """A stream that can't be decompressed; the splitter's unfinished record is reported separately."""


class Decompressor(Protocol):
    """Decompresses the stream of one connection."""

    piece_bytes: int
    """Maximum size of a piece."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompresses `data` in pieces; raises CompressionError (reason `bad_compression`) if it is corrupt."""
        ...

    def held(self) -> int:
        """Bytes that it holds between two feeds, mostly windows."""
        ...

    def finish(self) -> None:
        """Ends the stream; raises CompressionError (reason `truncated`) inside a member or frame."""
        ...


class Gzip:
    piece_bytes = PIECE_BYTES

    def __init__(self) -> None:
        self._member: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member is None:
                data = data.lstrip(b"\0")  # tape blocks and tar pad with zeros between members
                if not data:
                    return
                self._member = zlib.decompressobj(wbits=31)
            try:
                piece = self._member.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise _corrupt("gzip", error, data) from error
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            # After a full piece, output may remain although all input is consumed.
            while piece:
                yield piece
                piece = self._member.decompress(b"", PIECE_BYTES) if not data and not self._member.eof else b""
            if self._member.eof:
                self._member = None

    def held(self) -> int:
        return GZIP_HELD_BYTES if self._member is not None else 0

    def finish(self) -> None:
        if self._member is not None:
            raise _cut_off("gzip member")


class Zstd:
    piece_bytes = ZSTD_SLICE_BYTES // 4 * (128 << 10)

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._frame: Any = None
        self._window = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), ZSTD_SLICE_BYTES):
            rest = data[at : at + ZSTD_SLICE_BYTES]
            while rest:
                if self._frame is None:
                    self._frame = self._context.decompressobj()
                    self._window = max(self._window, _zstd_window(rest))
                try:
                    piece = self._frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise _corrupt("zstd", error, rest) from error
                rest = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = None
                if piece:
                    yield piece

    def held(self) -> int:
        return self._window  # the library keeps the largest window, also between frames

    def finish(self) -> None:
        if self._frame is not None:
            raise _cut_off("zstd frame")


class Lz4:
    piece_bytes = PIECE_BYTES

    def __init__(self) -> None:
        self._frame: Any = lz4.frame.LZ4FrameDecompressor()
        self._inside = False
        self._block = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data or not self._frame.needs_input:
            if not self._inside:
                self._block = LZ4_BLOCK_BYTES.get(data[5] >> 4 & 7, 0) if len(data) > 5 else LZ4_LARGEST
            try:
                piece = self._frame.decompress(data, PIECE_BYTES)
            except (RuntimeError, EOFError) as error:
                raise _corrupt("lz4", error, data) from error
            data = b""
            self._inside = True
            if self._frame.eof:
                data = self._frame.unused_data or b""
                self._frame = lz4.frame.LZ4FrameDecompressor()
                self._inside = False
            if piece:
                yield piece

    def held(self) -> int:
        return 2 * self._block if self._inside else 0  # a compressed block and its decompressed form

    def finish(self) -> None:
        if self._inside:
            raise _cut_off("lz4 frame")


DECOMPRESSORS: dict[str, type[Gzip] | type[Zstd] | type[Lz4]] = {"gzip": Gzip, "zstd": Zstd, "lz4": Lz4}


def _zstd_window(head: bytes) -> int:
    """The window size of the frame that starts here; the maximum if its header is incomplete."""
    try:
        return min(ZSTD_WINDOW_BYTES, int(zstandard.get_frame_parameters(head).window_size))
    except zstandard.ZstdError:
        return ZSTD_WINDOW_BYTES


def _corrupt(kind: str, error: Exception, data: bytes) -> CompressionError:
    return CompressionError(
        f"the stream is not {kind}: {error}",
        reason="bad_compression",
        bad=bytes(data),
        hint=f'the sender must compress with {kind}, or set compression to what it sends ("none" for plain bytes)',
    )


def _cut_off(what: str) -> CompressionError:
    return CompressionError(
        f"the stream ended inside a {what}", reason="truncated", hint="the sender must end its stream"
    )
