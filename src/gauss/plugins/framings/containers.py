"""The base of container framings, which build records from parts of the stream."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.contracts.framing import Buffer, Frames
from gauss.contracts.plugin import PluginConfig
from gauss.model.errors import FrameError
from gauss.plugins.framings.buffered_splitter import BufferedSplitter, Cut, bad_frame, too_long

NO_RECORDS = pa.array([], pa.binary())
HANDED_OUT_BYTES = 1 << 20
"""Records are handed out when they are so large together: each repeats what it shares with the others, so that a few
bytes of stream can stand for a thousand times as many."""
MOST_HEADER_BYTES = 1 << 20
"""Of a header or schema, which every record repeats."""


class Incomplete(Exception):
    """The part is incomplete: it has at least `need` bytes."""

    def __init__(self, need: int) -> None:
        super().__init__(f"{need} bytes or more expected")
        self.need = need


class Malformed(Exception):
    """Bytes that are no valid container."""


class TooLong(Exception):
    """A part whose own length says that it is above the limit."""

    def __init__(self, length: int) -> None:
        super().__init__(f"{length} bytes")
        self.length = length


def expect_start(data: Buffer, magic: bytes, what: str) -> None:
    """Raises unless `data` begins with `magic`: each byte is judged as it comes, wherever the stream is cut."""
    found = bytes(data[: len(magic)])
    if not magic.startswith(found):
        raise Malformed(f"expected {what} ({magic!r}), found {found!r}")
    if len(found) < len(magic):
        raise Incomplete(len(found) + 1)


class ContainerPart(NamedTuple):
    """One part of the stream; `record` is b"" for what is only remembered, such as a header."""

    size: int
    record: bytes


class ContainerFraming:
    """Records stand between headers that they share, so that the stream can't be cut into raw pieces."""

    raw = False
    carries_all = False

    def __init__(self, config: PluginConfig) -> None:
        """Containers have no settings."""

    @abstractmethod
    def _parse(self, record: bytes) -> object:
        """Raises FrameError if the record is no part of a container."""

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        """True where a record can't be parsed; a loop, since a container's records are large."""
        bad = np.zeros(len(data), dtype=bool)
        for index, record in enumerate(data.to_pylist()):
            try:
                self._parse(record)
            except FrameError:
                bad[index] = True
        return bad if bad.any() else None

    def bounds(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("a container's records do not lie in its stream as they are")


class ContainerSplitter(BufferedSplitter):
    @abstractmethod
    def _part(self, data: memoryview) -> ContainerPart:
        """The part at the head of `data`; raises one of the three errors above."""

    def _nothing(self) -> Frames:
        return Frames(NO_RECORDS, 0)

    def _cut(self, buffer: bytes | bytearray) -> Cut:
        view = memoryview(buffer)
        records: list[bytes] = []
        position, need, size = 0, 1, 0
        error: FrameError | None = None
        while position < len(view) and size < HANDED_OUT_BYTES:
            try:
                part = self._part(view[position:])
            except Incomplete as incomplete:
                need = incomplete.need
                break
            except TooLong as long:
                error = too_long(long.length, self._limit, buffer, position)
                break
            except Malformed as malformed:
                error = bad_frame(str(malformed), buffer, position)
                break
            if part.record:
                records.append(part.record)
                size += len(part.record)
            position += part.size
        more = size >= HANDED_OUT_BYTES
        return Cut(pa.array(records, pa.binary()), len(records), position, need, error, more)
