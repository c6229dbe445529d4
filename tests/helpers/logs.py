"""Real logs and records for tests of storages, cursors and topics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, Cursor, Output, Placed, Program, Step
from gauss.contracts.format import Format
from gauss.contracts.framing import Framing, FramingSpec
from gauss.contracts.storage import Log, StorageContext, StorageSpec


def framing(name: str, parameters: dict[str, object] | None = None) -> Framing:
    spec = registry.spec(FramingSpec, name)
    return cast(Framing, registry.build(spec, spec.validate(dict(parameters or {}))))


NEWLINE = framing("newline")


def lines(*records: bytes, ts_ms: int | Sequence[int] = 1) -> Chunk:
    """Records in newline framing."""
    times = ts_ms if isinstance(ts_ms, int) else np.array(ts_ms, dtype=np.int64)
    return Chunk(b"".join(record + b"\n" for record in records), len(records), times, NEWLINE)


def arrow(*records: bytes, ts_ms: int | Sequence[int] = 1) -> Chunk:
    """Records without a framing."""
    times = ts_ms if isinstance(ts_ms, int) else np.array(ts_ms, dtype=np.int64)
    return Chunk(pa.array(records, type=pa.binary()), len(records), times)


def numbered(first: int, count: int, ts_ms: int | Sequence[int] = 1) -> Chunk:
    return lines(*(b"r%d" % number for number in range(first, first + count)), ts_ms=ts_ms)


def open_log(
    storage: str,
    folder: Path,
    config: dict[str, Any] | None = None,
    *,
    committed: Callable[[int], bool] = lambda _: True,
    incarnation: Callable[[int], int] = lambda stored: stored or 7,
    formats: Mapping[str, Format] | None = None,
) -> Log:
    spec = registry.spec(StorageSpec, storage)
    context = StorageContext("t", folder / "topic", folder, incarnation, committed, framing)
    if formats is not None:
        context = dataclasses.replace(context, format=formats.__getitem__)
    return cast(Log, registry.build(spec, spec.validate(config or {}), context))


def put(log: Log, *chunks: Chunk) -> None:
    """Appends records and makes them visible."""
    for chunk in chunks:
        log.append(chunk)
    log.reveal()


def flatten(placed: Iterable[Placed]) -> list[tuple[int, int, bytes]]:
    """(offset, ts_ms, data) of each record."""
    found: list[tuple[int, int, bytes]] = []
    for entry in placed:
        batch = entry.chunk.batch(entry.offset).to_pydict()
        found += zip(batch["offset"], batch["ts_ms"], batch["data"], strict=True)
    return found


def records(log: Log, start: int | None = None, stop: int | None = None) -> list[tuple[int, int, bytes]]:
    """All visible records, read in many small steps."""
    position, end = log.floor if start is None else start, log.end if stop is None else stop
    found: list[tuple[int, int, bytes]] = []
    while position < end:
        placed = log.chunks(position, end, 1)
        if not placed:
            break
        found += flatten(placed)
        position = found[-1][0] + 1
    return found


def data(log: Log) -> list[bytes]:
    return [record[2] for record in records(log)]


def drain(cursor: Cursor, step: Step | None = None) -> list[tuple[int, int, bytes]]:
    """Reads a cursor until it is idle or done."""
    found: list[tuple[int, int, bytes]] = []
    while cursor.next(step or Step()) is Code.OK:
        code, batch = cursor.read()
        assert code is Code.OK
        if isinstance(batch, list):
            found += flatten(batch)
        else:
            assert isinstance(batch, pa.RecordBatch)
            rows = batch.to_pydict()
            found += zip(rows["offset"], rows["ts_ms"], rows["data"], strict=True)
    return found


CHUNKS = Program(output=Output.CHUNKS)
