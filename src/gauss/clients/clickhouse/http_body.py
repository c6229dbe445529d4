"""HTTP bodies as streams: chunked or with a length, compressed or not."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable
from typing import IO, Any, Protocol, cast

import lz4.frame
import zstandard

DRAIN_BYTES = 256 << 20
MOST_TRAILERS = 100
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}(?=[;\s])")


class BodyError(Exception):
    """A body that does not match its headers."""


class Body(io.RawIOBase):
    """The body of a request; a premature end raises BodyError."""

    def __init__(self, source: io.BufferedIOBase, length: int | None) -> None:
        self._source = source
        self._left = length if length is not None else 0
        self._chunked = length is None
        self._done = length == 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._chunked and not self._left and not self._done:
            self._next_chunk()
        if self._done or not len(buffer):
            return 0
        wanted = min(len(buffer), self._left)
        view = memoryview(buffer)[:wanted]
        count = self._source.readinto1(view)
        if not count:
            raise BodyError("the client went away in mid-body")
        self._left -= count
        if not self._left:
            if self._chunked:
                self._source.readline(8)
            else:
                self._done = True
        return count

    def _next_chunk(self) -> None:
        line = self._source.readline(1024)
        found = _CHUNK_SIZE.match(line)
        if found is None:
            raise BodyError("the client went away in mid-body" if not line else "a chunk has no size")
        self._left = int(found[0], 16)
        if not self._left:
            for _ in range(MOST_TRAILERS):
                if self._source.readline(65536) in (b"\r\n", b"\n", b""):
                    break
            else:
                raise BodyError(f"the body has more than {MOST_TRAILERS} trailers")
            self._done = True

    def drain(self, most: int) -> bool:
        """Reads the rest of the body, so that the client can read the response; returns False if it is too long."""
        scratch, total = bytearray(1 << 16), 0
        try:
            while not self._done and total < most and (count := self.readinto(scratch)):
                total += count
        except (BodyError, OSError):
            return False
        return self._done


_READERS: dict[str, Callable[[Body], Any]] = {
    "": io.BufferedReader,
    "identity": io.BufferedReader,
    "gzip": lambda body: gzip.GzipFile(fileobj=cast(Any, body)),
    "lz4": lambda body: lz4.frame.LZ4FrameFile(io.BufferedReader(body)),
    "zstd": lambda body: zstandard.ZstdDecompressor().stream_reader(cast(Any, body), read_across_frames=True),
}


def plain_reader(body: Body, encoding: str) -> IO[bytes]:
    """A reader of the decompressed body."""
    try:
        return cast(IO[bytes], _READERS[encoding.strip().lower()](body))
    except KeyError:
        raise BodyError(f"Content-Encoding {encoding} is not supported; use lz4, zstd or gzip") from None


class Compressor(Protocol):
    def compress(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


class _Lz4:
    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        head = b"" if self._begun else self._frame.begin()
        self._begun = True
        return cast(bytes, head + self._frame.compress(data))

    def flush(self) -> bytes:
        return cast(bytes, (b"" if self._begun else self._frame.begin()) + self._frame.flush())


class _Plain:
    def compress(self, data: bytes) -> bytes:
        return data

    def flush(self) -> bytes:
        return b""


_WRITERS: dict[str, Callable[[], Compressor]] = {
    "lz4": _Lz4,
    "zstd": lambda: cast(Compressor, zstandard.ZstdCompressor(level=1).compressobj()),
    "gzip": lambda: cast(Compressor, zlib.compressobj(3, wbits=31)),
}


def choose_encoding(accepted: str) -> tuple[str, Compressor]:
    """The first supported encoding that the client accepts, and its compressor."""
    for entry in accepted.split(","):
        name = entry.split(";")[0].strip().lower()
        if name in _WRITERS:
            return name, _WRITERS[name]()
    return "", _Plain()
