"""Decodes the blobs of scan results."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from gauss.contracts.cursor import Output


def decode_item(output: Output, blob: bytes) -> Any:
    """The contents of a blob: a list of row maps, a batch, a list of values, or a list of chunks."""
    match output:
        case Output.COLUMNAR:
            return pa.ipc.open_stream(blob).read_next_batch()
        case Output.ROWS:
            found = msgspec.msgpack.decode(blob)
            return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        case _:
            return msgspec.msgpack.decode(blob)
