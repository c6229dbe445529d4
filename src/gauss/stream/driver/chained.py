"""A chain in one task: what a step makes of a range is staged into its topic, and goes on to the next step at once.

What is at hand is not decoded again: a step that passes records on unchanged passes their columns too, and columns
that were just written as JSON are taken for what the next step would read there, where nothing can differ.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.processor import REST
from gauss.stream.client import STAGE_SCHEMA
from gauss.stream.driver.hosted import look_up, transform_of
from gauss.stream.driver.plan import FormatRef, Step, TransformRef, Work, WritePlan
from gauss.stream.driver.reading import Range, bury, coalesced, decode, engine, format_of, with_marks
from gauss.stream.driver.sink import Staged, by_topic, stage_batch, stage_letters, stage_records
from gauss.stream.engine.dead import RETRY_PREFIX
from gauss.stream.protocol import Read

FREE = ("int64", "double", "bool", "string")
"""Field types that take every value of their Arrow type."""
Columns = Mapping[str, pa.Array]

_passes: set[bytes] = set()
"""Transforms that were seen to pass records on unchanged, in this process."""


def run_chain(plan: WritePlan, work: Work, part: Range, done: Staged) -> None:
    """Takes a range of the head, or of the retry inlet of somebody behind it, through the chain."""
    task = _Task(plan, work)
    leg = task.legs.get(part.topic.removeprefix(RETRY_PREFIX), task.head)
    if leg is task.head and work.transform.table is not None:
        look_up(work, part)
    letters: list[dict[str, Any]] = []
    ticket = Read(part.topic, part.inc, part.start, part.stop, plan.processor, plan.generation)
    for records in coalesced(engine(plan.flight).read(ticket)):
        leg.read(records, part, letters)
    if letters:
        bury(leg.work.read, letters, part)
    task.stage(done, (part.topic, part.start))


@dataclass
class _Kept:
    """What a task has for one topic."""

    stage: str = field(default_factory=lambda: uuid.uuid4().hex)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    parent: str = ""
    """The stage that holds all of its bytes, if there is one."""
    copies: list[pa.RecordBatch] = field(default_factory=list)
    """The same records as rows of that."""

    def add(self, batch: pa.RecordBatch, parent: str = "", rows: pa.Array | None = None) -> int:
        """Adds records, which may be rows of another stage; gives the place of the first."""
        first, self.rows = self.rows, self.rows + batch.num_rows
        if rows is not None and parent and (not self.batches or self.parent == parent):
            self.parent = parent
            self.copies.append(pa.RecordBatch.from_arrays([batch.column(0), rows], names=["ts_ms", "row"]))
        else:
            self.parent = ""
        self.batches.append(batch)
        return first

    def stage_at(self, plan: WritePlan, topic: str) -> None:
        """Keeps the records at the engine; bytes that are there already are not sent again."""
        batches = self.copies if self.parent else self.batches
        stage_records(plan, topic, batches, name=self.stage, parent=self.parent)


class _Task:
    """The chain's legs, and what they have made of one range."""

    def __init__(self, plan: WritePlan, work: Work) -> None:
        self._plan = plan
        self.kept: dict[str, _Kept] = {}
        self.letters: list[bytes] = []
        self.head = _Leg(self, work, plan)
        self.legs: dict[str, _Leg] = {}
        for step in plan.steps:
            self.legs[step.name] = _Leg(self, step.work, _write_plan(plan, step), step)
        for leg in (self.head, *self.legs.values()):
            leg.next = {
                step.topic: [self.legs[each.name] for each in plan.steps if each.topic == step.topic]
                for step in plan.steps
                if step.topic in (leg.write.routes or [leg.write.target])
            }

    def stage(self, done: Staged, place: tuple[str, int]) -> None:
        """Keeps everything at the engine."""
        for topic, kept in self.kept.items():
            kept.stage_at(self._plan, topic)
            done.stages.append((place, topic, kept.stage))
        stage_letters(self._plan, self.letters, done, place)


def _write_plan(plan: WritePlan, step: Step) -> WritePlan:
    return msgspec.structs.replace(plan, target=step.target, format=step.format, routes=step.routes)


class _Leg:
    """One processor of the chain in one task."""

    def __init__(self, task: _Task, work: Work, write: WritePlan, step: Step | None = None) -> None:
        self._task, self.work, self.write, self._step = task, work, write, step
        self.next: dict[str, list[_Leg]] = {}
        self.fields = work.read.decoded()
        self._ref = msgspec.json.encode(work.transform)
        self._transform = transform_of(self._ref)
        self._plain = _is_plain(work.transform)

    def read(self, records: pa.RecordBatch, part: Range, letters: list[dict[str, Any]]) -> None:
        """Takes records (offset, ts_ms, data)."""
        wanted = self._wanted(self.work.read.format)
        if len(wanted) > len(self.fields):
            doubts: list[dict[str, Any]] = []
            whole = list(decode(self.work.read, records, wanted, part, doubts))
            # One that a later step could not read is its dead letter, not ours.
            if not doubts and len(whole) == 1 and len(whole[0]) == len(records):
                self.take(whole[0])
                return
        for decoded in decode(self.work.read, records, self.fields, part, letters):
            self.take(decoded)

    def _wanted(self, format: FormatRef | None) -> pa.Schema:
        """What this step decodes, with what is decoded of the same records behind it."""
        found = {each.name: each for each in self.fields}
        if self._ref in _passes:
            for leg in (leg for legs in self.next.values() for leg in legs if leg.work.read.format == format):
                found |= {each.name: each for each in leg._wanted(format) if each.name not in found}
        return pa.schema(list(found.values()))

    def take(self, decoded: pa.RecordBatch, origin: tuple[str, int] = ("", 0)) -> None:
        """Transforms, writes and hands on. `origin`: the stage that holds just these records, and where there."""
        times = decoded.column("_ts_ms")
        given = decoded.select([*self.fields.names, "_ts_ms", "_data"])
        if "ts_ms" not in self.fields.names:
            given = given.append_column("ts_ms", times)
        numbered = self._plain and bool(self.next or origin[0])
        if numbered:  # whoever keeps a record's time tells so which record a row was made of
            given = given.set_column(given.schema.names.index("_ts_ms"), "_ts_ms", pa.array(np.arange(len(given))))
        made = self._transform.arrow(with_marks(given, self.fields))
        if not made.num_rows:
            return
        rows = None
        if numbered and "_ts_ms" in made.schema.names:
            place = made.schema.names.index("_ts_ms")
            rows = made.column(place)
            made = made.set_column(place, "_ts_ms", times.take(rows))
            if "_data" in made.schema.names:
                _passes.add(self._ref)
        made = made if rows is None else made.append_column(_ROW, rows)
        for topic, part in by_topic(made, self.write):
            self._write(topic, part, decoded, origin)

    def _write(self, topic: str, made: pa.RecordBatch, decoded: pa.RecordBatch, origin: tuple[str, int]) -> None:
        rows = made.column(_ROW) if _ROW in made.schema.names else None
        made = made if rows is None else made.drop_columns([_ROW])
        letters: list[bytes] = []
        staged = stage_batch(made, self.write, letters)
        if staged.column(0).null_count and topic in self.next:
            columns = [staged.column(0).fill_null(pc.max(decoded.column("_ts_ms"))), staged.column(1)]
            staged = pa.RecordBatch.from_arrays(columns, schema=STAGE_SCHEMA)
        if self._step is not None:
            named = {"processor": self._step.name}
            letters = [msgspec.json.encode(msgspec.json.decode(each) | named) for each in letters]
        self._task.letters += letters
        kept = self._task.kept.setdefault(topic, _Kept())
        passed = rows is not None and "_data" in made.schema.names
        stage, begin = origin if passed else ("", 0)
        first = kept.add(staged, stage, pc.add(rows, begin) if stage and rows is not None else None)
        followers = self.next.get(topic, ())
        if not followers:
            return
        if passed and rows is not None:
            marked = {each.name for each in self._wanted(self.work.read.format) if each.metadata}
            names = [name for name in decoded.schema.names if name not in marked and not _hidden(name)]
            known: Columns = {name: decoded.column(name) for name in names}
            if len(rows) < len(decoded):  # what passes keeps its order: as many are the same
                known = _Taken(known, rows)
            format = self.work.read.format
        elif not letters and len(staged) == len(made):
            known, format = _written(made, self.write.format), self.write.format
        else:
            known, format = {}, None
        for leg in followers:
            leg.receive(topic, staged, known if format == leg.work.read.format else {}, (kept.stage, first))

    def receive(self, topic: str, records: pa.RecordBatch, known: Columns, place: tuple[str, int]) -> None:
        """Takes records (ts_ms, data) that were just staged, and columns that are known of them."""
        stage, first = place
        wanted = self._wanted(self.work.read.format)
        if known and all(_fits(each, known) for each in self.fields):
            names = [each.name for each in wanted if _fits(each, known)]
            columns = [*(known[name] for name in names), records.column(0), records.column(1)]
            self.take(pa.RecordBatch.from_arrays(columns, names=[*names, "_ts_ms", "_data"]), place)
            return
        offsets = pa.array(np.arange(first, first + len(records)))
        letters: list[dict[str, Any]] = []
        numbered = pa.RecordBatch.from_arrays([offsets, *records.columns], names=["offset", "ts_ms", "data"])
        self.read(numbered, Range(topic, 0, first, first + len(records)), letters)
        self._task.letters += [msgspec.json.encode(each | {"from_stage": stage}) for each in letters]


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


def _is_plain(ref: TransformRef) -> bool:
    """Whether a transform is one of ours whose `_data`, if it gives any, is that of the records."""
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    found = spec(ProcessorSpec, ref.plugin)
    return found.implementation.startswith("gauss.plugins.") and found.codecs is None
