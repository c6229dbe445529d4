"""Single records decompressed, each within its bounds: a call of a C library per record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gauss.contracts.decode_budget import MAX_DECODED_BYTES, DecodeBudget
from gauss.contracts.format import BadRecord, Decoded, SourceSchema
from gauss.contracts.format_batch import decode_each, encode_each
from gauss.model.errors import FrameError
from gauss.plugins.processors.decompress.spec import DecompressConfig
from gauss.plugins.processors.decompress.transform import DATA
from gauss.plugins.processors.tcp_source.decompress import DECOMPRESSORS, Decompressor

GZIP_MAGIC = b"\x1f\x8b"


class Compressed:
    """To the reader a format with one field."""

    def __init__(self, config: DecompressConfig) -> None:
        self._algo = config.algo
        self._most = config.max_record_bytes
        self._stream: Decompressor | None = None
        self._snappy = pa.Codec("snappy") if config.algo == "snappy" else None

    def schema(self) -> SourceSchema | None:
        return SourceSchema((DATA,))

    def decode(self, data: bytes) -> dict[str, Any]:
        return {DATA.name: self._inflate(data)}

    def encode(self, row: dict[str, Any]) -> bytes:
        found: bytes = pa.Codec(self._algo).compress(row[DATA.name], asbytes=True)
        return found

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return encode_each(self.encode, rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        """Every record that can be decompressed."""
        budget = DecodeBudget(max(self._most, MAX_DECODED_BYTES))

        def inflate(record: bytes) -> bytes:
            found = self._inflate(record)
            budget.take(len(found))
            return found

        made, good, bad = decode_each(inflate, enumerate(data.to_pylist()))
        return Decoded(pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], schema=fields), np.array(good), bad)

    def _inflate(self, data: bytes) -> bytes:
        if not data:
            raise BadRecord("truncated", "the record is empty")
        if self._snappy is not None:
            return self._block(self._snappy, data)
        if self._algo == "gzip" and not data.startswith(GZIP_MAGIC):
            raise BadRecord("bad_compression", "the record is not gzip")
        # What a record left inside after a fault must not reach the next one.
        stream, self._stream = self._stream or DECOMPRESSORS[self._algo](), None
        pieces, left = [], self._most
        try:
            for piece in stream.feed(data):
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    raise self._too_large()
            stream.finish()
        except FrameError as error:
            raise BadRecord(error.reason, error.message.replace("the stream", "the record")) from error
        self._stream = stream
        return b"".join(pieces)

    def _block(self, codec: pa.Codec, data: bytes) -> bytes:
        """Raw snappy tells its size first, seven bits to a byte."""
        size = shift = 0
        for byte in data[:5]:
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if size > self._most:
            raise self._too_large()
        try:
            found: bytes = codec.decompress(data, size, asbytes=True)
        except (OSError, ValueError) as error:
            raise BadRecord("bad_compression", f"the record is not snappy: {error}") from error
        return found

    def _too_large(self) -> BadRecord:
        return BadRecord("too_large", f"decompressed, the record is larger than max_record_bytes = {self._most}")
