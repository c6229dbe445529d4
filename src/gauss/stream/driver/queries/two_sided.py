"""Queries over two topics: each has its own reader with its format, offset and watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from gauss.clients.engine.positions import Ends
from gauss.contracts.time_field import with_event_time
from gauss.contracts.two_sided import TwoSided
from gauss.model.errors import ConfigError
from gauss.model.names import EVENT, retry_topic
from gauss.stream.driver.planning.reads import QueryRead, ReadBlocks, ReadTimed
from gauss.stream.driver.planning.refs import FieldRef, encode_fields
from gauss.stream.driver.planning.writes import TaskWrite, WritePairs, WriteRows
from gauss.stream.driver.queries.compile import Design, nested, time_plan
from gauss.stream.driver.tasks.join_blocks import near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def both_sides(session: SparkSession, read: ReadTimed, write: WriteRows, design: Design) -> tuple[DataFrame, TaskWrite]:
    """The result of a transform of two topics, and how it is written. If the transform works on blocks, the frame holds
    pairs of blocks that are near each other in time, and the writer finds the pairs of records in them."""
    transform, traits = cast("TwoSided", design.transform), design.traits
    ref, beside = design.ref.beside, traits.beside
    assert ref is not None and beside is not None
    if design.processor.source is not None and design.processor.source.topic == ref.topic:
        raise ConfigError(
            f'processor "{read.processor}" can\'t join topic "{ref.topic}" with itself',
            hint="copy it to another topic with a passthrough processor and join that one",
        )
    if beside.merges_records and ref.format != design.input:
        raise ConfigError(
            f'processor "{read.processor}" can\'t merge whole records of two different formats',
            hint="list the fields of the other topic in join_fields, or use the same format for both",
        )
    # The second topic has its own retry topic.
    mine = {name for name in read.start if name in (ref.topic, retry_topic(read.processor, ref.topic))}
    left = msgspec.structs.replace(read, start=_of(read.start, set(read.start) - mine), keep_data=traits.carries)
    decoded = beside.fields
    if traits.time is not None and traits.time.field:
        decoded = with_event_time(decoded, traits.time.field, ref.format.build().schema())
    fields = [FieldRef(each.name, each.field_type.name, each.field_type.attrs, each.beside) for each in decoded]
    right = msgspec.structs.replace(
        read,
        start=_of(read.start, mine),
        format=ref.format,
        fields=encode_fields(fields),
        time=time_plan(design, fields) or read.time,
        keep_data=beside.merges_records,
    )
    slot_ms = design.spec.block_slot_ms(design.spec.validate(design.processor.config))
    if not slot_ms:
        return transform.apply_both(_records(session, left), _records(session, right)), write
    one, other = (ReadBlocks(**msgspec.structs.asdict(side), slot_ms=slot_ms) for side in (left, right))
    frame = near(_stream(session, one), _stream(session, other), beside.window_ms, slot_ms)
    return frame, WritePairs(**msgspec.structs.asdict(write), left=one, right=other, transform=design.ref)


def _of(start: Ends, topics: set[str]) -> Ends:
    return {name: at for name, at in start.items() if name in topics}


def _records(session: SparkSession, plan: ReadTimed) -> DataFrame:
    return nested(_stream(session, plan), plan.decoded().names)


def _stream(session: SparkSession, plan: QueryRead) -> DataFrame:
    assert plan.timing is not None
    records = session.readStream.format("gauss").option("plan", plan.option()).load()
    return records.withWatermark(EVENT, f"{plan.timing.watermark_ms} milliseconds")
