"""A chain in one task: what a step makes of records is staged into its topic, and goes on to the next step at once.

What is at hand is not decoded again: a step that passes records on unchanged passes their columns too, and columns
that were just written as JSON are taken for what the next step would read there, where nothing can differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.processor import REST
from gauss.stream.client import STAGE_SCHEMA
from gauss.stream.driver.hosted import transform_of
from gauss.stream.driver.origins import NOWHERE, Kept, Origin, Place
from gauss.stream.driver.outbox import Outbox
from gauss.stream.driver.plan import ChainPlan, FormatRef, Step, TransformRef, WritePlan
from gauss.stream.driver.reading import Range, decode, format_of, with_marks
from gauss.stream.driver.sink import by_topic, stage_batch
from gauss.stream.engine.dead import DEAD_TOPIC

FREE = ("int64", "double", "bool", "string")
"""Field types that take every value of their Arrow type."""
Columns = Mapping[str, pa.Array]

_passes: set[bytes] = set()
"""Transforms that were seen to pass records on unchanged, in this process."""


class ChainEpoch:
    """A chain's legs, and what they have made of the records of one epoch."""

    def __init__(self, chain: ChainPlan, write: WritePlan) -> None:
        """`write`: who publishes, in which generation."""
        self._write = write
        self.begin()
        self.head = Leg(self, chain.head)
        self.legs = {step.name: Leg(self, step) for step in chain.steps}
        for leg in (self.head, *self.legs.values()):
            leg.next = {
                topic: [each for each in self.legs.values() if each.step.topic == topic] for topic in leg.step.targets
            }

    def begin(self, *, stays: bool = False) -> None:
        """Forgets the epoch before. `stays`: what is read now stays in its topics until it is published."""
        self.stays = stays
        self.kept: dict[str, Kept] = {}
        self.letters: list[bytes] = []

    def write_plan(self, step: Step) -> WritePlan:
        return msgspec.structs.replace(self._write, target=step.target, format=step.format, routes=step.routes)

    def stage(self, outbox: Outbox) -> dict[str, list[str]]:
        """Keeps everything for the publish; the stages by topic."""
        found: dict[str, list[str]] = {}
        stages = {kept.stage: kept for kept in self.kept.values()}
        for topic, kept in self.kept.items():
            kept.put(topic, outbox, stages)
            found[topic] = [kept.stage]
        if self.letters:
            columns = [pa.nulls(len(self.letters), pa.int64()), pa.array(self.letters, pa.binary())]
            batch = pa.RecordBatch.from_arrays(columns, schema=STAGE_SCHEMA)
            found[DEAD_TOPIC] = [outbox.put(DEAD_TOPIC, [batch])]
        return found


class Leg:
    """One processor of the chain in one epoch."""

    def __init__(self, epoch: ChainEpoch, step: Step) -> None:
        self._epoch, self.step, self.work = epoch, step, step.work
        self.write = epoch.write_plan(step)
        self.next: dict[str, list[Leg]] = {}
        self.fields = self.work.read.decoded()
        self._ref = msgspec.json.encode(self.work.transform)
        self._transform = transform_of(self._ref)
        self._passes_bytes = _passes_bytes(self._ref)

    def read(
        self, records: pa.RecordBatch, part: Range, letters: list[dict[str, Any]], origin: Origin | None = None
    ) -> None:
        """Takes records (offset, ts_ms, data); `origin`: where they lie, if it is not in their topic."""
        wanted, read = self.wanted(self.work.read.format), self.work.read
        if len(wanted) > len(self.fields):
            doubts: list[dict[str, Any]] = []
            whole = list(decode(read, records, wanted, part, doubts, offsets=True))
            # One that a later step could not read is its dead letter, not ours.
            if not doubts and len(whole) == 1 and len(whole[0]) == len(records):
                self.take(whole[0], origin or self.lies(whole[0], part))
                return
        for decoded in decode(read, records, self.fields, part, letters, offsets=True):
            known = origin if origin is not None and len(decoded) == len(records) else NOWHERE
            self.take(decoded, self.lies(decoded, part) if origin is None else known)

    def lies(self, decoded: pa.RecordBatch, part: Range) -> Origin:
        """The records of a range, where they stay."""
        if not self._epoch.stays:
            return NOWHERE
        return Origin(topic=Place(part.topic, part.inc, decoded.column("_offset")))

    def wanted(self, format: FormatRef | None) -> pa.Schema:
        """What this step decodes, with what is decoded of the same records behind it."""
        found = {each.name: each for each in self.fields}
        if self._ref in _passes:
            for leg in (leg for legs in self.next.values() for leg in legs if leg.work.read.format == format):
                found |= {each.name: each for each in leg.wanted(format) if each.name not in found}
        return pa.schema(list(found.values()))

    def take(self, decoded: pa.RecordBatch, origin: Origin = NOWHERE) -> None:
        """Transforms, writes and hands on. `origin`: where these records lie."""
        times = decoded.column("_ts_ms")
        given = decoded.select([*self.fields.names, "_ts_ms", "_data"])
        if "ts_ms" not in self.fields.names:
            given = given.append_column("ts_ms", times)
        numbered = self._passes_bytes and (any(origin) or any(self.next.values()))
        if numbered:  # whoever keeps a record's time tells so which record a row was made of
            given = given.set_column(given.schema.names.index("_ts_ms"), "_ts_ms", pa.array(np.arange(len(given))))
        made = self._transform.arrow(with_marks(given, self.fields))
        if not made.num_rows:
            return
        rows = None
        if numbered and "_ts_ms" in made.schema.names:
            place = made.schema.names.index("_ts_ms")
            rows = made.column(place)
            # What passes keeps its order: as many are the same.
            made = made.set_column(place, "_ts_ms", times if len(rows) == len(times) else times.take(rows))
            if "_data" in made.schema.names:
                _passes.add(self._ref)
        made = made if rows is None else made.append_column(_ROW, rows)
        for topic, part in by_topic(made, self.write):
            self._write(topic, part, decoded, origin)

    def _write(self, topic: str, made: pa.RecordBatch, decoded: pa.RecordBatch, origin: Origin) -> None:
        rows = made.column(_ROW) if _ROW in made.schema.names else None
        made = made if rows is None else made.drop_columns([_ROW])
        letters: list[bytes] = []
        staged = stage_batch(made, self.write, letters)
        followers = self.next.get(topic, ())
        if staged.column(0).null_count and followers:
            columns = [staged.column(0).fill_null(pc.max(decoded.column("_ts_ms"))), staged.column(1)]
            staged = pa.RecordBatch.from_arrays(columns, schema=STAGE_SCHEMA)
        if letters:
            named = {"processor": self.step.name}
            self._epoch.letters += [msgspec.json.encode(msgspec.json.decode(each) | named) for each in letters]
        kept = self._epoch.kept.setdefault(topic, Kept())
        passed = rows is not None and "_data" in made.schema.names and len(staged) == len(rows)
        lies = origin.of(rows) if passed else NOWHERE
        first = kept.add(staged, lies)
        if not followers:
            return
        if passed and rows is not None:
            marked = {each.name for each in self.wanted(self.work.read.format) if each.metadata}
            names = [name for name in decoded.schema.names if name not in marked and not _hidden(name)]
            known: Columns = {name: decoded.column(name) for name in names}
            if len(rows) < len(decoded):
                known = _Taken(known, rows)
            format = self.work.read.format
        elif not letters and len(staged) == len(made):
            known, format = _written(made, self.write.format), self.write.format
        else:
            known, format = {}, None
        place = Place(kept.stage, 0, pa.array(np.arange(first, first + len(staged))))
        for leg in followers:
            leg.receive(topic, staged, known if format == leg.work.read.format else {}, Origin(lies.topic, place))

    def receive(self, topic: str, records: pa.RecordBatch, known: Columns, origin: Origin) -> None:
        """Takes records (ts_ms, data) that were just staged, and columns that are known of them."""
        wanted = self.wanted(self.work.read.format)
        if known and all(_fits(each, known) for each in self.fields):
            names = [each.name for each in wanted if _fits(each, known)]
            columns = [*(known[name] for name in names), records.column(0), records.column(1)]
            self.take(pa.RecordBatch.from_arrays(columns, names=[*names, "_ts_ms", "_data"]), origin)
            return
        assert origin.stage is not None
        stage, offsets = origin.stage.name, origin.stage.rows
        letters: list[dict[str, Any]] = []
        numbered = pa.RecordBatch.from_arrays([offsets, *records.columns], names=["offset", "ts_ms", "data"])
        first = offsets[0].as_py()
        self.read(numbered, Range(topic, 0, first, first + len(records)), letters, origin)
        self._epoch.letters += [msgspec.json.encode(each | {"from_stage": stage}) for each in letters]


_ROW = "_row"


class _Taken(Mapping[str, pa.Array]):
    """Columns of which some rows are wanted; taken only when asked for."""

    def __init__(self, columns: Columns, rows: pa.Array) -> None:
        self._columns, self._rows = columns, rows
        self._made: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._made:
            self._made[name] = self._columns[name].take(self._rows)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def type(self, name: str) -> pa.DataType:
        return self._columns[name].type


def _fits(wanted: pa.Field, known: Columns) -> bool:
    """Whether a column is there as it would be decoded; a value of any kind never is."""
    if wanted.name not in known or wanted.metadata:
        return False
    return bool((known.type(wanted.name) if isinstance(known, _Taken) else known[wanted.name].type) == wanted.type)


def _written(made: pa.RecordBatch, format: FormatRef | None) -> Columns:
    """Columns that come back from their encoding just as they are."""
    if format is None or format.plugin != "json" or not {"_data", REST}.isdisjoint(made.schema.names):
        return {}
    strict = _strict(msgspec.json.encode(format))
    return {
        each.name: column
        for each, column in zip(made.schema, made.columns, strict=True)
        if not (_hidden(each.name) or "." in each.name or each.name in strict or each.metadata) and _comes_back(column)
    }


@lru_cache(maxsize=32)
def _strict(ref: bytes) -> set[str]:
    """Fields of a format that don't take every value of their Arrow type."""
    schema = format_of(msgspec.json.decode(ref, type=FormatRef)).schema()
    fields = schema.fields if schema is not None else ()
    return {each.name for each in fields if each.field_type.name not in FREE or each.field_type.attrs}


def _comes_back(column: pa.Array) -> bool:
    kind = column.type
    if column.null_count:
        return False
    if pa.types.is_float64(kind):
        return bool(pc.all(pc.is_finite(column)).as_py())
    return bool(pa.types.is_int64(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind))


def _hidden(name: str) -> bool:
    return name.startswith("_") or name == "ts_ms"


@lru_cache(maxsize=256)
def _passes_bytes(ref: bytes) -> bool:
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    return spec(ProcessorSpec, msgspec.json.decode(ref, type=TransformRef).plugin).passes_bytes
