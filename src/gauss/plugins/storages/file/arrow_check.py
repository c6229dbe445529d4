"""Verifies rolled Arrow files by the checksums in their `.sum` file, or by Arrow's validation if there is none."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from gauss.model.batch import RECORD_SCHEMA
from gauss.plugins.storages.file.disk import mapped, replace_file
from gauss.plugins.storages.file.integrity import Damage

META = b"gauss"


@dataclass
class Sums:
    """The `.sum` file: metadata of the Arrow file, the checksum of its bytes and a checksum of each batch."""

    base: int
    end: int
    bytes: int
    last_ts: int
    whole: str = ""
    batches: list[tuple[int, str]] = field(default_factory=list)
    """Number of rows and checksum of each batch."""

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append((batch.num_rows, checksum(batch)))

    def write(self, arrow: Path, path: Path) -> Path:
        """Writes the checksums of a finished file, before it is renamed."""
        self.whole = _of_bytes(mapped(arrow))
        told = asdict(self)
        replace_file(path, json.dumps({**told, "checksum": _of_bytes(_canonical(told))}).encode())
        return path

    @classmethod
    def beside(cls, arrow: Path) -> Sums | None:
        """The `.sum` file of an Arrow file; None if it is damaged or missing, as in folders of older versions."""
        try:
            told = json.loads(arrow.with_suffix(".sum").read_bytes())
            if told.pop("checksum") != _of_bytes(_canonical(told)):
                return None
            return cls(**{**told, "batches": [(rows, each) for rows, each in told["batches"]]})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def within(cls, arrow: Path) -> Sums | None:
        """The metadata of the Arrow file, without checksums; None if it can't be opened."""
        try:
            with pa.memory_map(str(arrow)) as source, pa.ipc.open_file(source) as reader:
                told = json.loads(reader.schema.metadata[META])
            return cls(int(told["base"]), int(told["end"]), int(told["bytes"]), int(told["last_ts"]))
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            return None


def _canonical(told: dict[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True).encode()


def _of_bytes(content: bytes | memoryview) -> str:
    return xxhash.xxh3_64(content).hexdigest()


def checksum(batch: pa.RecordBatch) -> str:
    """The checksum of a batch's records, independent of the layout of its buffers."""
    offsets, times, data = batch.columns
    _, ends, content = data.buffers()
    bounds = np.frombuffer(ends, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    summed = xxhash.xxh3_64()
    for numbers in (offsets.to_numpy(), times.to_numpy(), bounds - bounds[:1]):
        summed.update(numbers.tobytes())
    if content is not None and len(data):
        summed.update(memoryview(content)[int(bounds[0]) : int(bounds[-1])])
    return summed.hexdigest()


def sound_batches(path: Path, base: int, end: int) -> tuple[list[pa.RecordBatch], list[int], list[Damage]]:
    """The intact batches of a file, the first offset of each, and the ranges up to `end` that none of them covers."""
    sums = Sums.beside(path)
    intact = sums is not None and sums.whole == _of_bytes(mapped(path))
    batches: list[pa.RecordBatch] = []
    starts: list[int] = []
    offset = base
    for number, batch in enumerate(_all_batches(path)):
        told = sums.batches[number] if sums is not None and number < len(sums.batches) else None
        if batch is not None and (intact or _is_sound(batch, offset, told)):
            batches.append(batch)
            starts.append(offset)
        elif told is None:
            break  # the start of the next one is unknown
        offset += told[0] if told is not None else len(batch) if batch is not None else 0
    return batches, starts, _uncovered(path, base, end, batches, starts)


def _all_batches(path: Path) -> list[pa.RecordBatch | None]:
    """All batches, None for unreadable ones."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        count = reader.num_record_batches
        if reader.schema.remove_metadata() != RECORD_SCHEMA.remove_metadata() or count > path.stat().st_size:
            return []
    except (pa.ArrowException, OSError, ValueError):
        return []
    found: list[pa.RecordBatch | None] = []
    for number in range(count):
        try:
            found.append(reader.get_batch(number))
        except (pa.ArrowException, OSError, ValueError):
            found.append(None)
    return found


def _is_sound(batch: pa.RecordBatch, offset: int, told: tuple[int, str] | None) -> bool:
    """Whether a batch is intact. Arrow's validation comes first: a wrong length would read outside the buffer."""
    try:
        batch.validate(full=True)
    except (pa.ArrowException, ValueError):
        return False
    if batch.num_rows == 0 or any(column.null_count for column in batch.columns):
        return False
    if told is not None:
        return (batch.num_rows, checksum(batch)) == told
    return bool((batch.column(0).to_numpy() == np.arange(offset, offset + batch.num_rows)).all())


def _uncovered(path: Path, base: int, end: int, batches: list[pa.RecordBatch], starts: list[int]) -> list[Damage]:
    found: list[Damage] = []
    position = base
    for start, stop in [
        *((start, start + len(batch)) for start, batch in zip(starts, batches, strict=True)),
        (end, end),
    ]:
        if start > position:
            found.append(Damage(path, position, start, "a batch of the Arrow file is not as it was written"))
        position = max(position, stop)
    return found
