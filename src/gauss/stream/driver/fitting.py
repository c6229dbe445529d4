"""Whether transforms fit their formats, as the driver would find out; nothing is started for it."""

from __future__ import annotations

from collections.abc import Iterator

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.contracts.processor import Role, Where
from gauss.model.errors import ConfigError, GaussError
from gauss.stream.driver.plan import FormatRef, transform_ref
from gauss.stream.graph import Graph


def misfits(pipeline: Pipeline, graph: Graph) -> Iterator[tuple[str, GaussError]]:
    """Each processor on Spark that can't be planned, and why. One that reads a table is left out: the table's columns
    take the place of its input format."""
    for entry in pipeline.processors:
        node = graph.processors[entry.name]
        if node.role is not Role.TRANSFORM or node.where is Where.ENGINE:
            continue
        if any(graph.topics[reading.topic].table for reading in node.sources):
            continue
        try:
            _fit(pipeline, entry)
        except GaussError as error:
            yield entry.name, error


def _fit(pipeline: Pipeline, entry: ProcessorDef) -> None:
    ref = transform_ref(pipeline, entry)
    try:
        transform, _ = ref.build()
    except RuntimeError:  # only Spark itself can tell what a query names
        return
    if getattr(transform, "carries", False):
        can_carry(entry, ref.input, ref.output)


def can_carry(processor: ProcessorDef, read: FormatRef | None, written: FormatRef | None) -> None:
    """Fields that nobody names go along only inside their own record."""
    if written not in (None, read) or not (read and hasattr(read.build(), "merge_batch")):
        raise ConfigError(
            f'processor "{processor.name}" can\'t know which fields to write: neither format has a schema',
            hint="give the input or the output format `fields`",
        )
