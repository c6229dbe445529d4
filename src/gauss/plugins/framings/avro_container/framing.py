"""An Avro object container as a stream: each record is the header in force and one block, readable by itself."""

from __future__ import annotations

import pyarrow as pa

from gauss.plugins.framings.avro_container.container import MAGIC, SYNC_BYTES, block_size, header_size
from gauss.plugins.framings.buffered_splitter import bad_frame
from gauss.plugins.framings.containers import (
    MOST_HEADER_BYTES,
    ContainerFraming,
    ContainerPart,
    ContainerSplitter,
    Incomplete,
    Malformed,
    TooLong,
)

ANY_SIZE = 2**31 - 1


class AvroContainerFraming(ContainerFraming):
    key: tuple[object, ...] = ("avro_container",)

    def splitter(self, max_record_bytes: int) -> AvroContainerSplitter:
        return AvroContainerSplitter(max_record_bytes)

    def joiner(self) -> AvroContainerJoiner:
        return AvroContainerJoiner()

    def _parse(self, record: bytes) -> object:
        return split_record(record)


def split_record(record: bytes, known_header: bytes = b"") -> int:
    """The header's end in a record of header and one block; raises FrameError for anything else."""
    try:
        known = known_header and record.startswith(known_header)
        end = len(known_header) if known else header_size(record, ANY_SIZE)
        size = end + block_size(memoryview(record)[end:], ANY_SIZE)
    except (Incomplete, Malformed, TooLong) as error:
        raise bad_frame(f"no Avro header and block: {error}", record, 0) from error
    if size != len(record) or record[-SYNC_BYTES:] != record[end - SYNC_BYTES : end]:
        raise bad_frame("expected one Avro header and one block with its sync marker", record, 0)
    return end


class AvroContainerSplitter(ContainerSplitter):
    def __init__(self, max_record_bytes: int) -> None:
        super().__init__(max_record_bytes)
        self._header = b""

    def held(self) -> int:
        return super().held() + len(self._header)

    def _part(self, data: memoryview) -> ContainerPart:
        # No block begins with the magic's first byte: it would be a negative count.
        if not self._header or data[0] == MAGIC[0]:
            size = header_size(data, min(self._limit, MOST_HEADER_BYTES))
            self._header = bytes(data[:size])
            return ContainerPart(size, b"")
        size = block_size(data, self._limit - len(self._header))
        if data[size - SYNC_BYTES : size] != self._header[-SYNC_BYTES:]:
            raise Malformed("the sync marker after an Avro block is not the header's")
        return ContainerPart(size, self._header + data[:size])


class AvroContainerJoiner:
    """Sends a header only when it differs from the last."""

    def __init__(self) -> None:
        self._header = b""

    def join(self, data: pa.BinaryArray) -> bytes:
        parts: list[bytes] = []
        for record in data.to_pylist():
            end = split_record(record, self._header)
            if record[:end] != self._header:
                self._header = record[:end]
                parts.append(self._header)
            parts.append(record[end:])
        return b"".join(parts)
