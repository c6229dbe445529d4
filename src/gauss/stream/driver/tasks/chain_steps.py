"""Runs the steps of a chain in one task: the result of a step is staged for its topic and handed to the next step.

Records are not decoded twice: a step that passes records on unchanged hands on their columns too, and columns that were
just encoded as JSON are handed on where decoding them again could make no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.engine.client import STAGE_SCHEMA
from gauss.contracts.letter import Letter
from gauss.model.names import (
    DATA_COLUMN,
    DEAD_TOPIC,
    OFFSET_COLUMN,
    REST,
    ROW_COLUMN,
    TS_MS_COLUMN,
    is_internal,
)
from gauss.stream.driver.planning.refs import FormatRef, TransformRef
from gauss.stream.driver.planning.standing_plans import ChainPlan, ChainStep
from gauss.stream.driver.planning.writes import ResultWrite
from gauss.stream.driver.queries.sink import HERE, by_topic, fields_beside, letters_batch, stage_batch
from gauss.stream.driver.tasks.locations import NOWHERE, Location, Locations, TopicResults
from gauss.stream.driver.tasks.outbox import Outbox
from gauss.stream.driver.tasks.outside_fields import with_key, with_partition
from gauss.stream.driver.tasks.reading import EXTRAS, Range, decode, extras, format_of, with_marks
from gauss.stream.driver.tasks.transforms import transform_of

FREE = ("int64", "double", "bool", "string")
"""Field types that accept every value of their Arrow type."""
Columns = Mapping[str, pa.Array]


class ChainEpoch:
    """The steps of a chain and their results for the records of one epoch."""

    def __init__(self, chain: ChainPlan, write: ResultWrite) -> None:
        """`write`: the processor that publishes, and its generation."""
        self._write = write
        self.begin()
        self.head = ChainMember(self, chain.head)
        self.members = {step.name: ChainMember(self, step) for step in chain.steps}
        for member in (self.head, *self.members.values()):
            member.next = {
                topic: [each for each in self.members.values() if each.step.topic == topic]
                for topic in member.step.targets
            }

    def begin(self, *, stays: bool = False) -> None:
        """Begins an epoch. `stays`: its records remain in their topics until it is published."""
        self.stays = stays
        self.kept: dict[str, TopicResults] = {}
        self.letters: list[Letter] = []

    def write_plan(self, step: ChainStep) -> ResultWrite:
        return msgspec.structs.replace(
            self._write, target=step.target, format=step.format, routes=step.routes, outside=step.outside
        )

    def stage(self, outbox: Outbox) -> dict[str, list[str]]:
        """Stages the results for topics of the engine; returns the stages by topic."""
        found: dict[str, list[str]] = {}
        stages = {kept.stage: kept for kept in self.kept.values()}
        for topic, kept in self.kept.items():
            if topic in self.head.step.outside:
                continue
            kept.put(topic, outbox, stages)
            found[topic] = [kept.stage]
        if self.letters:
            found[DEAD_TOPIC] = [outbox.put(DEAD_TOPIC, [letters_batch(self.letters)])]
        return found


class ChainMember:
    """A processor of the chain."""

    def __init__(self, epoch: ChainEpoch, step: ChainStep) -> None:
        self._epoch, self.step = epoch, step
        self.write = epoch.write_plan(step)
        self.next: dict[str, list[ChainMember]] = {}
        self.fields = self.step.read.decoded()
        self._ref = msgspec.json.encode(self.step.transform)
        self._transform = transform_of(self._ref)
        self._passes = ROW_COLUMN not in self.fields.names and passes_records(self._ref, self.fields)

    def read(
        self, records: pa.RecordBatch, part: Range, letters: list[Letter], origin: Locations | None = None
    ) -> None:
        """Decodes and takes records `(offset, ts_ms, data)`. `origin`: where their bytes are, if not in their topic."""
        wanted, read = self.wanted(self.step.read.format), self.step.read
        if len(wanted) > len(self.fields):
            doubts: list[Letter] = []
            whole = list(decode(read, records, wanted, part, doubts, offsets=True))
            # A record that only a later step cannot decode is a dead letter of that step.
            if not doubts and len(whole) == 1 and len(whole[0]) == len(records):
                self.take(whole[0], origin or self.lies(whole[0], part))
                return
        for decoded in decode(read, records, self.fields, part, letters, offsets=True):
            known = origin if origin is not None and len(decoded) == len(records) else NOWHERE
            self.take(decoded, self.lies(decoded, part) if origin is None else known)

    def read_joined(self, records: pa.RecordBatch, part: Range) -> bool:
        """Decodes and takes records of several partitions. False if one can't be decoded, since its dead letter has its
        partition: then nothing is taken. `part`: the first of their ranges."""
        doubts: list[Letter] = []
        wanted = self.wanted(self.step.read.format)
        whole = list(decode(self.step.read, records, wanted, part, doubts, offsets=True))
        if doubts or len(whole) != 1 or len(whole[0]) != len(records):
            return False
        self.take(whole[0])
        return True

    def lies(self, decoded: pa.RecordBatch, part: Range) -> Locations:
        """The origin of the records of a range."""
        if not self._epoch.stays:
            return NOWHERE
        return Locations(topic=Location(part.topic, part.inc, decoded.column(OFFSET_COLUMN)))

    def wanted(self, format: FormatRef | None) -> pa.Schema:
        """The fields that this step decodes, and those that later steps decode from the same records."""
        found = {each.name: each for each in self.fields}
        if self._passes:
            for member in (
                member for members in self.next.values() for member in members if member.step.read.format == format
            ):
                found |= {each.name: each for each in member.wanted(format) if each.name not in found}
        return pa.schema(list(found.values()))

    def take(self, decoded: pa.RecordBatch, origin: Locations = NOWHERE) -> None:
        """Transforms decoded records, keeps the result and hands it on. `origin`: where their bytes are."""
        times = decoded.column(TS_MS_COLUMN)
        given = decoded.select([*self.fields.names, TS_MS_COLUMN, DATA_COLUMN])
        if "ts_ms" not in self.fields.names:
            given = given.append_column("ts_ms", times)
        if self._passes and (any(origin) or any(self.next.values()) or self.step.outside):
            given = given.append_column(ROW_COLUMN, pa.array(np.arange(len(given))))
        made = self._transform.arrow(with_marks(given, self.fields))
        if not made.num_rows:
            return
        for topic, part in by_topic(made, self.write):
            self._write(topic, part, decoded, origin)

    def _write(self, topic: str, made: pa.RecordBatch, decoded: pa.RecordBatch, origin: Locations) -> None:
        rows = made.column(ROW_COLUMN) if self._passes and ROW_COLUMN in made.schema.names else None
        made = made if rows is None else made.drop_columns([ROW_COLUMN])
        letters: list[Letter] = []
        target = self.step.outside.get(topic)
        staged = stage_batch(made, self.write, letters, target or HERE)
        if rows is not None:
            staged = _with_columns(staged, fields_beside(decoded, target or HERE), rows)
        if target is not None:
            staged, kept_rows = with_partition(with_key(staged, target), target, self.write.flight, topic, letters)
            rows = rows.filter(kept_rows) if rows is not None and kept_rows is not None else rows
        if rows is not None:
            staged = _with_columns(staged, _extras(decoded), rows)
        followers = self.next.get(topic, ())
        if staged.column(0).null_count and followers:
            times = staged.column(0).fill_null(pc.max(decoded.column(TS_MS_COLUMN)))
            staged = staged.set_column(0, STAGE_SCHEMA.field(0), times)
        self._epoch.letters += [msgspec.structs.replace(each, processor=self.step.name) for each in letters]
        kept = self._epoch.kept.setdefault(topic, TopicResults())
        lies = origin.of(rows) if rows is not None else NOWHERE
        first = kept.add(staged, lies)
        if not followers:
            return
        if rows is not None:
            marked = {each.name for each in self.wanted(self.step.read.format) if each.metadata}
            names = [name for name in decoded.schema.names if name not in marked and not _hidden(name)]
            known: Columns = {name: decoded.column(name) for name in names}
            if len(rows) < len(decoded):
                known = _Taken(known, rows)
            format = self.step.read.format
        elif not letters and len(staged) == len(made):
            known, format = _written(made, self.write.format), self.write.format
        else:
            known, format = {}, None
        place = Location(kept.stage, 0, pa.array(np.arange(first, first + len(staged))))
        for member in followers:
            member.receive(
                topic, staged, known if format == member.step.read.format else {}, Locations(lies.topic, place)
            )

    def receive(self, topic: str, records: pa.RecordBatch, known: Columns, origin: Locations) -> None:
        """Takes records `(ts_ms, data)` of the step before, with the columns that are already decoded. The records have
        keys and headers too if they passed unchanged from a topic that has them."""
        wanted = self.wanted(self.step.read.format)
        if known and all(_fits(each, known) for each in self.fields):
            names = [each.name for each in wanted if _fits(each, known)]
            columns = {name: known[name] for name in names}
            columns |= {TS_MS_COLUMN: records.column(0), DATA_COLUMN: records.column(1), **extras(records)}
            self.take(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), origin)
            return
        assert origin.stage is not None
        stage, offsets = origin.stage.name, origin.stage.rows
        letters: list[Letter] = []
        numbered = pa.RecordBatch.from_arrays([offsets, *records.columns], names=["offset", *records.schema.names])
        first = offsets[0].as_py()
        self.read(numbered, Range(topic, 0, first, first + len(records)), letters, origin)
        self._epoch.letters += [msgspec.structs.replace(each, from_stage=stage) for each in letters]


class _Taken(Mapping[str, pa.Array]):
    """Some rows of columns; a column is copied when it is first used."""

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


def _with_columns(staged: pa.RecordBatch, columns: Mapping[str, pa.Array], rows: pa.Array) -> pa.RecordBatch:
    """Records that passed unchanged, with columns of their rows that they do not have yet."""
    for name, values in columns.items():
        if name not in staged.schema.names:
            staged = staged.append_column(name, values.take(rows))
    return staged


def _extras(decoded: pa.RecordBatch) -> dict[str, pa.Array]:
    """The keys and headers with which records were read."""
    return {name: decoded.column(hidden) for name, hidden in EXTRAS.items() if hidden in decoded.schema.names}


def _fits(wanted: pa.Field, known: Columns) -> bool:
    """Whether a known column equals the decoded one; fields of any type are always decoded."""
    if wanted.name not in known or wanted.metadata:
        return False
    return bool((known.type(wanted.name) if isinstance(known, _Taken) else known[wanted.name].type) == wanted.type)


def _written(made: pa.RecordBatch, format: FormatRef | None) -> Columns:
    """The columns that decode to the same values after encoding."""
    if format is None or format.plugin != "json" or not {DATA_COLUMN, REST}.isdisjoint(made.schema.names):
        return {}
    strict = _strict(msgspec.json.encode(format))
    return {
        each.name: column
        for each, column in zip(made.schema, made.columns, strict=True)
        if not (_hidden(each.name) or "." in each.name or each.name in strict or each.metadata) and _comes_back(column)
    }


@lru_cache(maxsize=32)
def _strict(ref: bytes) -> set[str]:
    """Fields of a format that do not accept every value of their Arrow type."""
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
    return is_internal(name) or name == "ts_ms"


def passes_records(ref: bytes, fields: pa.Schema) -> bool:
    """Whether a transform passes records on unchanged, as its result for no records shows; `ref` is a TransformRef as
    JSON."""
    from gauss.contracts.processor import ProcessorSpec
    from gauss.registry import spec

    if not spec(ProcessorSpec, msgspec.json.decode(ref, type=TransformRef).plugin).passes_bytes:
        return False
    hidden = {TS_MS_COLUMN: pa.int64(), DATA_COLUMN: pa.binary(), ROW_COLUMN: pa.int64()}
    if "ts_ms" not in fields.names:
        hidden["ts_ms"] = pa.int64()
    schema = pa.schema([*fields, *(pa.field(*each) for each in hidden.items())])
    made = transform_of(ref).arrow(pa.RecordBatch.from_pylist([], schema=schema))
    return {DATA_COLUMN, ROW_COLUMN} <= set(made.schema.names)
