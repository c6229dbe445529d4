"""Tries a corrected dead letter: does with it what the processor would do, and writes nothing."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.api.letters import input_format
from gauss.api.records import objects, text_or_base64
from gauss.clients.errors import RowError
from gauss.config.files import with_absolute_files
from gauss.config.formats import requested_format
from gauss.contracts.field_types import arrow_schema
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.closing import scope
from gauss.model.errors import ConfigError, GaussError
from gauss.model.names import inserted_topic, retry_topic
from gauss.stream.control.run import Running

if TYPE_CHECKING:
    from gauss.config.spec import Pipeline, ProcessorDef
    from gauss.stream.driver.planning.standing_plans import ChainStep
    from gauss.tables.mapped_table import MappedTable

MOST_RESULTS = 20
OWN_CODE = "its own code, which runs in Spark's processes only"
SERVER = "the insert itself: the server may still refuse the row, for example by a constraint"


@dataclass
class Trial:
    """What was tried with a record and what came of it."""

    tried: list[str]
    """The stages that were run, in order; the last one is that of a refusal."""
    not_tried: str = ""
    """The part of the processor that cannot be tried, in words."""
    format: str = ""
    row: Any = None
    """The record as it was decoded, or the row that a table would get."""
    results: list[dict[str, Any]] = field(default_factory=list)
    """The first records that would be written: `{topic, data}`."""
    reason: str = ""
    detail: str = ""

    def refused(self, stage: str, reason: str, detail: str) -> Trial:
        self.tried = [*self.tried[: self.tried.index(stage)], stage] if stage in self.tried else [*self.tried, stage]
        self.reason, self.detail = reason, detail
        return self

    def answer(self) -> bytes:
        """The trial as JSON."""
        found = {"passes": not self.reason, "stage": self.tried[-1] if self.reason else "", **self.__dict__}
        return msgspec.json.encode(found, enc_hook=str)


def tried(running: Running, processor: str, data: bytes) -> bytes:
    """What a processor makes of a record now, as JSON: its results, or the reason why it would be refused again."""
    found = input_format(running, processor)
    base = running.config.absolute().parent
    pipeline = with_absolute_files(running.pipeline, base)
    if topic := inserted_topic(processor):
        from gauss.stream.tables import table_topic  # imports the table's client

        with scope():
            return _inserted(table_topic(pipeline, topic, base, running.held.paths), data).answer()
    entry = next(each for each in pipeline.processors if each.name == processor)
    with scope():
        step, why = _step(running, pipeline, entry, data)
    if step is not None:
        return _transformed(step, data, found.name if found is not None else "", why).answer()
    if found is None:
        raise ConfigError(
            f'"{processor}" decodes no records, so nothing can be tried',
            hint="send the corrected record to a topic: POST /api/topics/NAME/records",
        )
    with scope():
        return _decoded(running, found.name, data, why).answer()


def _decoded(running: Running, name: str, data: bytes, why: str) -> Trial:
    """Decodes a record and does no more."""
    trial = Trial(["decode"], not_tried=why, format=name)
    form = requested_format(running.pipeline, name)
    schema = form.schema()
    decoded = form.decode_batch(pa.array([data], pa.binary()), arrow_schema(schema.fields if schema else ()))
    if decoded.bad:
        _, reason, detail = decoded.bad[0]
        return trial.refused("decode", reason, detail)
    try:
        whole = len(decoded.rows) and decoded.rows.num_columns
        trial.row = objects(decoded.rows.slice(0, 1))[0] if whole else form.decode(data)
    except ValueError as error:  # the batch has no fields, so nothing of the record was looked at
        return trial.refused("decode", getattr(error, "reason", "bad_record"), str(error))
    return trial


def _step(running: Running, pipeline: Pipeline, entry: ProcessorDef, data: bytes) -> tuple[ChainStep | None, str]:
    """The plan of a processor that transforms each record by itself in a standing task, else None; and what cannot be
    tried."""
    from gauss.config.topics import topics_of
    from gauss.contracts.processor import Role, Where
    from gauss.stream.driver.planning import detect
    from gauss.stream.driver.planning.checkpoint import Checkpoint
    from gauss.stream.driver.planning.explain import how_it_runs
    from gauss.stream.driver.planning.fingerprint import plan_hash
    from gauss.stream.driver.planning.outside import outside
    from gauss.stream.driver.planning.reads import RangeRead
    from gauss.stream.driver.planning.refs import encode_fields
    from gauss.stream.driver.planning.standing_plans import ChainStep
    from gauss.stream.driver.queries.compile import design

    node = running.graph.processors[entry.name]
    if node.role is not Role.TRANSFORM:
        return None, "what it does with the record outside"
    if ":" in entry.plugin:
        return None, OWN_CODE
    if node.where is not Where.SPARK:
        return None, "its work in the engine"
    if how_it_runs(node) != "hosted":
        return None, "its Spark query, which sees many records at once"
    made = design(pipeline, entry)
    if made.ref.table is not None:
        return None, f"the look-up in {made.ref.table.topic}"
    sources, targets = topics_of(entry)
    path = Checkpoint(running.held.paths, entry.name, plan_hash(running.pipeline, entry)).kinds
    kinds = detect.load(path) if made.undecided else {}
    if made.undecided and made.input is not None:  # no record has decided the types of these fields yet
        kinds = detect.decide(made.undecided, [data], made.input.build()) | kinds
    read = RangeRead(
        flight="", processor=entry.name, generation=0, format=made.input, fields=encode_fields(made.decided(kinds))
    )
    target, routes = (entry.target.topic, []) if entry.target else ("", targets)
    fields = [field for each in outside(pipeline, targets).values() if (field := each.partition)]
    left = f"the choice of a partition by {', '.join(dict.fromkeys(fields))}" if fields else ""
    return ChainStep(entry.name, sources[0].topic, read, made.ref, sources[0].read, target, made.output, routes), left


def _transformed(step: ChainStep, data: bytes, format_name: str, not_tried: str) -> Trial:
    """Runs the step of a standing task on one record."""
    from gauss.contracts.letter import Letter
    from gauss.stream.driver.planning.standing_plans import ChainPlan
    from gauss.stream.driver.planning.writes import ResultWrite
    from gauss.stream.driver.tasks.chain_steps import ChainEpoch
    from gauss.stream.driver.tasks.reading import Range

    trial = Trial(["decode", "transform", "encode"], not_tried, format_name)
    letters: list[Letter] = []
    epoch = ChainEpoch(ChainPlan(step), ResultWrite("", step.name, 0))  # its transform and formats are kept
    try:
        # As a replayed one: it has no key, headers and partition.
        epoch.head.read(_one_record(data), Range(retry_topic(step.name), 0, 0, 1), letters)
    except (ValueError, ArithmeticError, LookupError, GaussError) as error:
        return trial.refused("transform", "failed", f"{type(error).__name__}: {error}")
    if refused := [*letters, *epoch.letters]:
        return trial.refused(refused[0].stage, refused[0].reason, refused[0].detail)
    if step.read.format is not None:
        with scope(), suppress(ValueError):  # of a field that this processor does not read
            trial.row = step.read.format.build().decode(data)
    trial.results = [
        {"topic": topic, "data": text_or_base64(value)}
        for topic, kept in epoch.kept.items()
        for batch in kept.batches
        for value in batch.column("data").to_pylist()
    ][:MOST_RESULTS]
    return trial


def _inserted(found: MappedTable, data: bytes) -> Trial:
    """Decodes and maps a record, and converts its row to what the server gets."""
    from gauss.tables.evolution import lacking_columns
    from gauss.tables.rows import RowMapper

    trial = Trial(["decode", "map", "convert"], not_tried=SERVER, format=found.config.format or "")
    lacking: list[str] = []
    try:
        try:
            lacking, _ = lacking_columns(found.store.differences(found.target) or [], found.config.evolve)
        except GaussError as error:
            trial.not_tried = f"the insert itself: {error.message}"
        found.store.open(found.target, lacking)
        mapped = RowMapper(found, lacking).rows(pa.Table.from_batches([_one_record(data)]))
        assert mapped is not None, "a single record is never too large"
        if mapped.refusals:
            first = mapped.refusals[0]
            return trial.refused(first.stage, first.reason, first.detail)
        for group in mapped.groups:
            trial.row = objects(group.rows.slice(0, 1).combine_chunks().to_batches()[0])[0]
            found.store.check(group)
    except RowError as error:
        return trial.refused("convert", error.reason, error.message)
    finally:
        found.store.close()
    return trial


def _one_record(data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"offset": [0], "ts_ms": [int(time.time() * 1000)], "data": [data]}, RECORD_SCHEMA
    )
