"""Staged records: the results of an epoch's tasks until a publish names them. Beyond a limit they are stored on
disk."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gauss.clients.engine.task_messages import Stage, StageDead, StageTime
from gauss.model.errors import DiskFull, ProtocolError, StorageError
from gauss.stream.engine.delivery.range_store import RangeStore


@dataclass
class StagedRecords:
    """The records of one task for one topic: all in memory, or all in an Arrow stream file."""

    head: Stage
    batches: list[pa.RecordBatch] = field(default_factory=list)
    path: Path | None = None
    nbytes: int = 0
    reserved: int = 0
    """The counted bytes in memory; records that another stage holds are not counted."""
    named: bool = False

    def read(self) -> Iterator[pa.RecordBatch]:
        """The records in the order in which they were staged."""
        if self.path is None:
            yield from self.batches
            return
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


class Stages:
    """All stages, removed by generation and never by age: the stage of a slow task is still valid."""

    def __init__(self, directory: Path, memory_bytes: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # Stages are lost with the engine: their publish then names an unknown stage, and the epoch is repeated.
        for left in directory.glob("*.arrows"):
            left.unlink()
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._stages: dict[str, StagedRecords] = {}
        self.dead = RangeStore(directory, StageDead, ".dead")
        self.times = RangeStore(directory, StageTime, ".time")
        self._files = 0
        self.used = 0
        """Bytes in memory."""

    def put(self, head: Stage, batches: Iterable[pa.RecordBatch]) -> int:
        """Stores a stage, replacing an earlier one of the same name. Returns the number of records."""
        staged = StagedRecords(head)
        batches = self._of_parent(head, batches) if head.parent else batches
        rows = 0
        try:
            writer: Any = None
            for batch in batches:
                rows += batch.num_rows
                staged.nbytes += batch.nbytes
                if writer is None and not head.whole and not self._reserve(staged, batch.nbytes):
                    writer = self._spill(staged, batch.schema)
                if writer is None:
                    staged.batches.append(batch)
                else:
                    writer.write_batch(batch)
            if writer is not None:
                writer.close()
        except OSError as error:
            self._free(staged)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(
                    f"no space left for staged records in {self._directory}", hint="free some disk"
                ) from error
            raise StorageError(f"records can't be staged: {error}") from error
        except BaseException:
            self._free(staged)
            raise
        with self._lock:
            replaced = self._stages.get(head.stage)
            self._stages[head.stage] = staged
        if replaced is not None:
            self._free(replaced)
        return rows

    def _of_parent(self, head: Stage, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records of another stage by their bytes; if they are all of it, nothing is copied."""
        with self._lock:
            parent = self._stages.get(head.parent)
        if parent is None or (parent.head.processor, parent.head.generation) != (head.processor, head.generation):
            raise ProtocolError(
                f'stage {head.stage} of processor "{head.processor}" has the unknown parent {head.parent}',
                hint="the engine has restarted, or the stage belongs to an older claim; run the epoch again",
            )
        if head.whole:
            yield from parent.read()
            return
        held = [batch.column("data").cast(pa.binary()) for batch in parent.read()]
        data = held[0] if len(held) == 1 else pa.concat_arrays(held) if held else pa.array([], pa.binary())
        for batch in batches:
            rows = batch.column("row")
            whole = len(rows) == len(data) and np.array_equal(rows.to_numpy(), np.arange(len(data)))
            columns = [batch.column("ts_ms"), data if whole else data.take(rows)]
            yield pa.RecordBatch.from_arrays(columns, names=["ts_ms", "data"])

    def _reserve(self, staged: StagedRecords, nbytes: int) -> bool:
        with self._lock:
            if self.used + nbytes > self._memory_bytes:
                return False
            self.used += nbytes
            staged.reserved += nbytes
            return True

    def _spill(self, staged: StagedRecords, schema: pa.Schema) -> Any:
        """Moves a stage to a file; returns the writer for the rest of it."""
        with self._lock:
            self._files += 1
            staged.path = self._directory / f"{self._files}.arrows"
        writer = pa.ipc.new_stream(str(staged.path), schema)
        for batch in staged.batches:
            writer.write_batch(batch)
        self._forget_memory(staged)
        return writer

    def _forget_memory(self, staged: StagedRecords) -> None:
        with self._lock:
            self.used -= staged.reserved
            staged.reserved = 0
        staged.batches = []

    def _free(self, staged: StagedRecords) -> None:
        self._forget_memory(staged)
        if staged.path is not None:
            staged.path.unlink(missing_ok=True)

    def name(self, processor: str, generation: int, topic: str, names: list[str]) -> list[StagedRecords]:
        """The stages of a publish, in its order; an abort no longer removes them."""
        with self._lock:
            found = []
            for name in names:
                staged = self._stages.get(name)
                head = staged.head if staged is not None else None
                owner = (head.processor, head.generation, head.topic) if head is not None else None
                if staged is None or owner != (processor, generation, topic):
                    raise ProtocolError(
                        f'processor "{processor}" publishes the unknown stage {name} into topic "{topic}"',
                        hint="the engine has restarted, or the stage belongs to an older claim; run the epoch again",
                    )
                found.append(staged)
            for staged in found:
                staged.named = True
            return found

    def done(self, names: Iterable[str]) -> None:
        """Removes stages whose records are published."""
        self._remove([name for name in names if name in self._stages])

    def abort(self, processor: str, generation: int, names: list[str]) -> int:
        """Removes those of the given stages that no publish has named: Spark also aborts what was published."""
        with self._lock:
            gone = [
                name
                for name in names
                if (staged := self._stages.get(name)) is not None
                and not staged.named
                and (staged.head.processor, staged.head.generation) == (processor, generation)
            ]
        self._remove(gone)
        return len(gone)

    def sweep(self, processor: str, generation: int) -> None:
        """Removes everything that lower generations staged."""
        with self._lock:
            gone = [
                name
                for name, staged in self._stages.items()
                if staged.head.processor == processor and staged.head.generation < generation
            ]
        self._remove(gone)
        self.dead.sweep(processor, generation)
        self.times.sweep(processor, generation)

    def _remove(self, names: list[str]) -> None:
        with self._lock:
            removed = [staged for name in names if (staged := self._stages.pop(name, None)) is not None]
        for staged in removed:
            self._free(staged)

    def clear(self) -> None:
        self._remove(list(self._stages))
