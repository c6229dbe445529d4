"""Checks that transforms and sinks fit their formats, without starting anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import pyarrow as pa

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.format import BadRows
from gauss.contracts.processor import ProcessorSpec, Role, Where
from gauss.contracts.storage import TopicKind
from gauss.model.closing import scope
from gauss.model.errors import ConfigError, GaussError
from gauss.model.names import BEAT, TS_MS_COLUMN
from gauss.registry import build, spec
from gauss.stream.driver.planning.refs import FormatRef, format_ref, transform_ref
from gauss.stream.formats import sink_formats
from gauss.stream.graph import Graph

HIDDEN = (TS_MS_COLUMN, BEAT)


def misfits(pipeline: Pipeline, graph: Graph) -> Iterator[tuple[str, GaussError]]:
    """The processors on Spark that cannot be planned and the sinks that cannot convert their records, with the error.
    Transforms that read a table are skipped, since the table's columns replace the input format."""
    for entry in pipeline.processors:
        node = graph.processors[entry.name]
        fits = _fit_sink if node.role is Role.SINK else _fit
        if node.role is Role.SOURCE or (node.role is Role.TRANSFORM and node.where is Where.ENGINE):
            continue
        if fits is _fit and any(graph.topics[reading.topic].kind is TopicKind.STORED_TABLE for reading in node.sources):
            continue
        try:
            with scope():
                fits(pipeline, entry)
        except GaussError as error:
            yield entry.name, error


def _fit_sink(pipeline: Pipeline, entry: ProcessorDef) -> None:
    formats = [format_ref(pipeline, name) for name in sink_formats(pipeline, entry.name) or ()]
    if formats:
        found = spec(ProcessorSpec, entry.plugin)
        build(dataclasses.replace(found, implementation=found.conversion), *(ref.build() for ref in formats if ref))


def _fit(pipeline: Pipeline, entry: ProcessorDef) -> None:
    ref = transform_ref(pipeline, entry)
    try:
        _, traits = ref.build()
    except RuntimeError:  # only Spark knows which fields a query uses
        return
    if traits.carries:
        can_carry(entry, ref.input, ref.output)
    if traits.columns is not None:
        can_write(entry.name, traits.columns, ref.input, ref.output)


def can_carry(processor: ProcessorDef, read: FormatRef | None, written: FormatRef | None) -> None:
    """Checks that fields that are not named can be passed on, which requires the format of the input record."""
    if written not in (None, read) or not (read and hasattr(read.build(), "merge_batch")):
        raise ConfigError(
            f'processor "{processor.name}" can\'t determine the fields to write: neither format has a schema',
            hint="give the input or the output format `fields`",
        )


def can_write(processor: str, columns: Iterable[str], read: FormatRef | None, written: FormatRef | None) -> None:
    """Checks a result's columns against the format they are written in. A named output format decides by its schema:
    columns that it lacks are left out, fields that the result lacks are an error. Without a named output the input's
    format must take every column."""
    names = [name for name in columns if name not in HIDDEN]
    if written is None:
        _takes_all(processor, names, read)
        return
    with scope():
        schema = written.build().schema()
    fields = [field.name.removeprefix("$.") for field in schema.fields] if schema is not None else []
    if missing := [name for name in fields if name not in names and name.partition(".")[0] not in names]:
        raise ConfigError(
            f'processor "{processor}" gives no value for {_listed(missing)} of its output format',
            hint=f"it gives: {', '.join(names)}; remove other fields from the schema, or add them to the result",
        )


def _takes_all(processor: str, names: list[str], read: FormatRef | None) -> None:
    """Checks that the format accepts all columns, by encoding a row of nulls."""
    if read is None:
        return
    try:
        with scope():
            made = read.build()
            made.encode_batch(pa.RecordBatch.from_arrays([pa.nulls(1) for _ in names], names))
    except ConfigError as error:
        raise ConfigError(
            f'processor "{processor}" needs an output format: the input format does not fit: {error.message}',
            hint="set an output format with the columns " + ", ".join(names),
        ) from error
    except (BadRows, pa.ArrowException):  # a value is missing, not a column
        return


def _listed(names: list[str]) -> str:
    return ("the field " if len(names) == 1 else "the fields ") + ", ".join(names)
