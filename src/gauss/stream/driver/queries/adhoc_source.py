"""`format("gauss")` for users: a topic by name in a plain Spark job, without a processor of the pipeline.

spark.read.format("gauss").option("topic", "quotes").load()                       offset, ts_ms, data
spark.readStream.format("gauss").option("topic", "quotes").option("format", …)    offset, ts_ms, fields, _error
frame.write.format("gauss").option("topic", "out").mode("append").save()          column data, or columns and a format

Such a reader makes no claim at the engine: it does not delay retention, and expired records are missing. A record that
cannot be decoded becomes a row of nulls with the reason in `_error`. Filters of a batch read, and the columns of
`.schema(…)`, are pushed down to the engine as a scan program (`pushdown.py`). Spark pushes filters down only if
`spark.sql.python.filterPushdown.enabled` is true, as in a session that Gauss starts; otherwise Spark applies them.
Table topics are read by `table_rows.py`. A write appends at once, so a task that Spark retries appends its records
again.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import At, Ends
from gauss.contracts.expression import Make
from gauss.contracts.format import FormatSpec
from gauss.model.errors import ConfigError, GaussError, Rejected
from gauss.model.paths import DataDir
from gauss.registry import spec
from gauss.scan.program.blob import encode_program
from gauss.stream.driver.planning.refs import FieldRef, FormatRef
from gauss.stream.driver.queries.pushdown import PushableColumns, Pushdown
from gauss.stream.driver.queries.table_rows import must_have
from gauss.stream.driver.tasks.reading import Range, engine, format_of, ranges

OPTIONS = ("topic", "data_dir", "format", "start", "end")
OWN = ("offset", "ts_ms")
"""Columns of every record."""
ERROR = "_error"
MAX_ROWS = 500_000


class TopicPlan(msgspec.Struct, frozen=True):
    """The topic that the options name."""

    flight: str
    topic: str
    format: FormatRef | None = None
    start: str = "earliest"
    end: str = "end"
    format_name: str = ""
    """The name of the format at the engine."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TopicPlan:
        """The plan of the given options; raises ConfigError with the list of options if the topic is missing."""
        if "topic" not in options:
            raise ConfigError('format("gauss") needs the option "topic"', hint=f"options: {', '.join(OPTIONS)}")
        data_dir = DataDir(Path(options.get("data_dir", ".gauss")).absolute())
        form = _format(data_dir, options["format"]) if "format" in options else None
        start, end = options.get("start", "earliest"), options.get("end", "end")
        return cls(str(data_dir.flight_json), options["topic"], form, start, end, options.get("format", ""))

    def fields(self, given: StructType | None = None) -> pa.Schema:
        """The decoded fields: those that the format declares, or else those of the given schema."""
        if self.format is None:
            return pa.schema([])
        schema = format_of(self.format).schema()
        if schema is None:
            if given is None:
                raise ConfigError(
                    "the format declares no fields",
                    hint='name them with .schema("symbol string, bid double"), or add `fields` to the format',
                )
            wanted = to_arrow_schema(given, timezone="UTC")
            return pa.schema([field for field in wanted if field.name not in (*OWN, ERROR)])
        return pa.schema([FieldRef(f.name, f.field_type.name, f.field_type.attrs).arrow() for f in schema.fields])

    def schema(self, given: StructType | None = None) -> pa.Schema:
        """The columns of a reader's rows."""
        fields = self.fields(given)
        own = [pa.field(name, pa.int64()) for name in OWN if name not in fields.names]
        if self.format is None:
            return pa.schema([*own, pa.field("data", pa.binary())])
        return pa.schema([*own, *(pa.field(f.name, f.type) for f in fields), pa.field(ERROR, pa.string())])

    def at(self, place: str) -> At:
        """The position of `earliest`, `end`, an offset, or -N (the last N records)."""
        found = engine(self.flight).command("topic", {"name": self.topic})
        inc, floor, end = found["inc"], found["floor"], found["end"]
        if place in ("earliest", "end"):
            return At(inc, floor if place == "earliest" else end)
        try:
            offset = int(place)
        except ValueError:
            raise ConfigError(f'expected "earliest", "end", an offset or -N, found "{place}"') from None
        return At(inc, min(max(offset if offset >= 0 else end + offset, floor), end))


def _format(data_dir: DataDir, name: str) -> FormatRef:
    """A format of the running pipeline, or a format plugin by its own name."""
    try:
        formats = json.loads(data_dir.pipeline_json.read_text())["formats"]
    except FileNotFoundError:
        formats = []
    found = next((entry for entry in formats if entry["name"] == name), None)
    return FormatRef(found["plugin"], found["config"]) if found else FormatRef(name)


@dataclass
class ProgramRange(Range):
    """A range and the scan program that the engine runs over it."""

    program: bytes = b""
    """Empty: all records are read unchanged."""
    projects: bool = False
    """Whether the program returns the requested columns; otherwise it returns the matching records."""


def read_rows(plan: TopicPlan, part: ProgramRange, pushed: Pushdown, given: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a range that match the pushed filters."""
    fields, names = plan.fields(given), plan.schema(given).names
    ticket, made = Read(part.topic, part.inc, part.start, part.stop), None
    if part.program:
        with contextlib.suppress(Rejected):  # a record may exceed the engine's limits: then filters are applied here
            made = engine(plan.flight).read_made(msgspec.structs.replace(ticket, program=part.program))
    if made is not None and part.projects:
        yield from made
        return
    for batch in engine(plan.flight).read(ticket) if made is None else _once(made):
        columns = {"offset": batch.column(0), "ts_ms": batch.column(1), "data": batch.column(2)}
        if plan.format is not None:
            columns |= _decoded(plan.format, batch, fields)
        yield pushed.kept(pa.RecordBatch.from_arrays([columns[name] for name in names], names=names))


def _once(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each record once: the program returns a record of several rows once for each matching row."""
    last = -1
    for batch in batches:
        offsets = batch.column("offset").to_numpy()
        fresh = np.diff(offsets, prepend=last) > 0
        last = int(offsets[-1]) if len(offsets) else last
        yield batch if fresh.all() else batch.filter(pa.array(fresh))


def _decoded(ref: FormatRef, batch: pa.RecordBatch, fields: pa.Schema) -> dict[str, pa.Array]:
    """Decoded fields with the record's offset and time, in record order; a bad record becomes a row of nulls."""
    made = format_of(ref).decode_batch(batch.column(2), fields)
    bad = np.array([index for index, _, _ in made.bad], np.int64)
    records = np.concatenate([made.good, bad])
    order = pa.array(np.argsort(records, kind="stable"))
    errors = [None] * len(made.good) + [f"{reason}: {detail}" for _, reason, detail in made.bad]
    found = {name: batch.column(n).take(pa.array(records)).take(order) for n, name in enumerate(("offset", "ts_ms"))}
    for field, values in zip(fields, made.rows.columns, strict=True):
        found[field.name] = pa.concat_arrays([values, pa.nulls(len(bad), values.type)]).take(order)
    return found | {ERROR: pa.array(errors, pa.string()).take(order)}


class _Rows:
    def __init__(self, plan: TopicPlan, schema: StructType) -> None:
        self.plan = plan
        self._schema = schema
        form = plan.format
        hint = "" if form else 'name the format of the records: .option("format", "json")'
        must_have(schema, plan.schema(schema).names, f'topic "{plan.topic}"', hint)
        gives_nan = form is not None and spec(FormatSpec, form.plugin).gives_nan
        self._pushed = Pushdown(
            PushableColumns.of(None if form is None else format_of(form).schema(), gives_nan=gives_nan)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        part = partition if isinstance(partition, ProgramRange) else ProgramRange(**vars(partition))
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for batch in read_rows(self.plan, part, self._pushed, self._schema):
            arrays = [(batch.column(field.name), field.type) for field in schema]
            yield pa.RecordBatch.from_arrays([a if a.type == t else a.cast(t) for a, t in arrays], schema=schema)


class FilterTaker:
    """A `pushFilters` that works with and without `spark.sql.python.filterPushdown.enabled`. If it is off, Spark
    rejects a reader that overrides `pushFilters`, which it detects by `__func__`."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, pushed: Pushdown) -> None:
        self._pushed = pushed

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return [entry for entry in filters if not self._pushed.take(entry)]


class TopicReader(_Rows, DataSourceReader):
    """A bounded read from `start` to `end`, both resolved when the job is planned."""

    def __init__(self, plan: TopicPlan, schema: StructType) -> None:
        super().__init__(plan, schema)
        self.pushFilters = FilterTaker(self._pushed)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        start, end = self.plan.at(self.plan.start), self.plan.at(self.plan.end)
        program, projects = self._program()
        found = ranges({self.plan.topic: start}, {self.plan.topic: end})
        return [ProgramRange(**vars(part), program=program, projects=projects) for part in found]

    def _program(self) -> tuple[bytes, bool]:
        """The encoded scan program, and whether it returns the requested columns. Empty if there is nothing to push
        down or the engine rejects the program."""
        names = self._schema.names
        made = self._pushed.program(self.plan.format_name, names)
        projects = any(isinstance(stage, Make) for stage in made.stages)
        if not made.stages or (len(made.stages) == 1 and projects and not set(self._own_columns()) - set(names)):
            return b"", False
        blob = encode_program(made)
        try:
            asked = {"topic": self.plan.topic, "program": base64.b64encode(blob).decode()}
            explained = engine(self.plan.flight).command("scan.explain", asked)
        except GaussError:
            return b"", False
        if self.plan.format is None and explained["decodes"]:
            return b"", False  # the topic's own format has fields with the names of the record's columns
        return blob, projects

    def _own_columns(self) -> list[str]:
        """All columns of this topic except the error."""
        return [name for name in self.plan.schema(self._schema).names if name != ERROR]


class TopicStream(_Rows, DataSourceStreamReader):
    """A live read whose position is stored in Spark's checkpoint."""

    def initialOffset(self) -> dict[str, Any]:
        return msgspec.to_builtins({self.plan.topic: self.plan.at(self.plan.start)})  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(MAX_ROWS)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin, end = msgspec.convert(start, Ends)[self.plan.topic], self.plan.at("end")
        if begin == end:
            return start
        first = begin.off if begin.inc == end.inc else 0
        most = end.off if isinstance(limit, ReadAllAvailable) else min(end.off, first + MAX_ROWS)
        return msgspec.to_builtins({self.plan.topic: At(end.inc, most)})  # type: ignore[no-any-return]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return ranges(msgspec.convert(start, Ends), msgspec.convert(end, Ends))

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the reader does not delay retention."""


class TopicWriter(DataSourceArrowWriter):
    """Appends records while tasks run."""

    def __init__(self, plan: TopicPlan, schema: StructType) -> None:
        if plan.format is None and schema.names != ["data"]:
            raise ConfigError(
                f"expected one column `data`, found {', '.join(schema.names)}",
                hint='select it, or name the format to encode columns with: .option("format", "json")',
            )
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        schema = pa.schema([pa.field("data", pa.binary(), nullable=False)])
        for batch in iterator:
            if batch.num_rows:
                ref = self.plan.format
                data = format_of(ref).encode_batch(batch) if ref else batch.column("data").cast(pa.binary())
                engine(self.plan.flight).append(self.plan.topic, [pa.RecordBatch.from_arrays([data], schema=schema)])
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: the tasks have appended the records already."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Does nothing: appended records stay."""
