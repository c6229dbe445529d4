"""Spark's data source `gauss`: topics as streams and batches, decoded where they are read."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from gauss.stream.client import EngineClient
from gauss.stream.driver.pace import Pace
from gauss.stream.driver.plan import BLOCK_ROWS, FormatRef, ReadPlan, WritePlan
from gauss.stream.protocol import At, Ends, Latest, Read, StageDead

if TYPE_CHECKING:
    from gauss.contracts.format import Format

MAX_LETTER_BYTES = 1 << 20
DEAD_BLOCK = 1_024
"""Dead letters are staged by fixed blocks of offsets, so that a replay replaces them block by block."""
DEAD_BYTES = 6 << 20
"""What the letters of one block may hold together; an action has a size limit."""


@lru_cache(maxsize=8)
def engine(flight: str) -> EngineClient:
    """One client per process and run; it opens its own connection after a fork."""
    return EngineClient.from_file(Path(flight))


@lru_cache(maxsize=32)
def _format(ref: bytes) -> Format:
    return msgspec.json.decode(ref, type=FormatRef).build()


def format_of(ref: FormatRef) -> Format:
    """The format, built once per process."""
    return _format(msgspec.json.encode(ref))


class GaussDataSource(DataSource):
    """`format("gauss")`; option `plan` is a ReadPlan or WritePlan as JSON."""

    @classmethod
    def name(cls) -> str:
        return "gauss"

    def _read_plan(self) -> ReadPlan:
        return msgspec.json.decode(self.options["plan"], type=ReadPlan)

    def schema(self) -> StructType:
        return from_arrow_schema(self._read_plan().schema())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self._read_plan(), schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        end = msgspec.json.decode(self.options["end"], type=Ends)
        return BatchReader(self._read_plan(), schema, end)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        from gauss.stream.driver.sink import StreamWriter

        return StreamWriter(msgspec.json.decode(self.options["plan"], type=WritePlan))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        from gauss.stream.driver.sink import BatchWriter

        ends = msgspec.json.decode(self.options["ends"], type=Ends)
        return BatchWriter(msgspec.json.decode(self.options["plan"], type=WritePlan), int(self.options["epoch"]), ends)


@dataclass
class Range(InputPartition):
    """Records [start, stop) of one topic."""

    topic: str
    inc: int
    start: int
    stop: int


def ranges(start: Ends, end: Ends, read: str = "offset") -> list[Range]:
    """A pure function of the batch: cut at fixed multiples of a block, in topic order."""
    found = []
    for topic, stop in sorted(end.items()):
        begin = start.get(topic, At(stop.inc, 0))
        # Of a dead incarnation nothing is left: what there is lies in the current one.
        first = begin.off if begin.inc == stop.inc else 0
        if read == "latest" and not topic.startswith("_"):
            first = max(first, stop.off - 1)
        while first < stop.off:
            last = min((first // BLOCK_ROWS + 1) * BLOCK_ROWS, stop.off)
            found.append(Range(topic, stop.inc, first, last))
            first = last
    return found


def to_ends(offset: dict[str, Any]) -> Ends:
    return msgspec.convert(offset, type=Ends)


class _Reading:
    """What stream and batch readers share: decode a range, stage its dead letters."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        self.plan = plan
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        plan, client = self.plan, engine(self.plan.flight)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        fields = plan.decoded()
        ticket = Read(partition.topic, partition.inc, partition.start, partition.stop, plan.processor, plan.generation)
        letters: list[dict[str, Any]] = []
        for batch in client.read(ticket):
            yield self._decode(batch, fields, schema, partition, letters)
        if letters:
            self._bury(letters, partition)

    def _decode(
        self, batch: pa.RecordBatch, fields: pa.Schema, schema: pa.Schema, part: Range, letters: list[dict[str, Any]]
    ) -> pa.RecordBatch:
        offsets, times, data = batch.column(0), batch.column(1), batch.column(2)
        columns: dict[str, pa.Array] = {}
        if self.plan.format is not None and len(fields):
            decoded = format_of(self.plan.format).decode_batch(data, fields)
            for index, reason, detail in decoded.bad:
                where = (offsets[index].as_py(), times[index].as_py())
                letters.append(self._letter(part, where, data[index].as_py(), (reason, detail)))
            if decoded.bad:
                good = pa.array(decoded.good)
                times, data = times.take(good), data.take(good)
            columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        columns |= {"_ts_ms": times, "_data": data}
        arrays = [columns[field.name] for field in schema]
        arrays = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _letter(self, part: Range, where: tuple[int, int], raw: bytes, verdict: tuple[str, str]) -> dict[str, Any]:
        (offset, ts_ms), (reason, detail) = where, verdict
        column = detail.split(":", 1)[0] if ": " in detail and " " not in detail.split(":", 1)[0] else ""
        letter = {
            "reason": reason,
            "detail": detail,
            "stage": "decode",
            "processor": self.plan.processor,
            "topic": part.topic,
            "inc": part.inc,
            "offset": offset,
            "ts_ms": ts_ms,
            "column": column,
            "data": base64.b64encode(raw[:MAX_LETTER_BYTES]).decode(),
        }
        if len(raw) > MAX_LETTER_BYTES:
            letter["truncated"] = len(raw)
        return letter

    def _bury(self, letters: list[dict[str, Any]], part: Range) -> None:
        blocks: dict[int, list[dict[str, Any]]] = {}
        for letter in letters:
            blocks.setdefault(letter["offset"] // DEAD_BLOCK, []).append(letter)
        for number, block in sorted(blocks.items()):
            _fit(block)
            start, stop = max(part.start, number * DEAD_BLOCK), min(part.stop, (number + 1) * DEAD_BLOCK)
            engine(self.plan.flight).stage_dead(
                StageDead(self.plan.processor, self.plan.generation, part.topic, part.inc, start, stop, block)
            )


def _fit(block: list[dict[str, Any]]) -> None:
    """Cuts the bytes of huge letters so that a block fits into one action."""
    sizes = np.array([len(letter["data"]) for letter in block])
    if sizes.sum() <= DEAD_BYTES:
        return
    cap = DEAD_BYTES // len(block) // 4 * 4  # base64 is cut at whole groups
    for letter in block:
        if len(letter["data"]) > cap:
            letter.setdefault("truncated", len(letter["data"]) // 4 * 3)
            letter["data"] = letter["data"][:cap]


class BatchReader(_Reading, DataSourceReader):
    """A bounded read from the plan's start to `end`."""

    def __init__(self, plan: ReadPlan, schema: StructType, end: Ends) -> None:
        super().__init__(plan, schema)
        self._end = end

    def partitions(self) -> Sequence[InputPartition]:
        return ranges(self.plan.start, self._end)


class StreamReader(_Reading, DataSourceStreamReader):
    """Lives in one process per query; `read` runs in Spark's workers."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        super().__init__(plan, schema)
        self._pace = Pace(plan.target_ms, plan.max_rows)

    def initialOffset(self) -> dict[str, Any]:
        # The engine fixed it when this checkpoint was first claimed: batch 0's start is in no log of Spark's.
        return msgspec.to_builtins(self.plan.start)  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.plan.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes. `start` tells the engine what is committed: only here may it let go."""
        now = time.monotonic()
        self._pace.asked(now)
        rows = self.plan.max_rows if isinstance(limit, ReadAllAvailable) else self._pace.rows
        asked = Latest(
            self.plan.processor, self.plan.generation, to_ends(start), max_rows=rows, max_bytes=self.plan.max_bytes
        )
        reply = engine(self.plan.flight).latest(asked)
        if reply.end == asked.start:
            return start  # the very same text: any difference would make a batch
        self._pace.given(time.monotonic(), reply.rows, reply.lag)
        return msgspec.to_builtins(reply.end)  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return ranges(to_ends(start), to_ends(end), self.plan.read)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes only when the next batch is planned, too late to free a full ring."""

    def stop(self) -> None:
        """Nothing to let go: the connection belongs to the process."""
