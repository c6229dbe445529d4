"""Queries over two topics: a reader for each, with a format, an offset and a watermark of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from gauss.contracts.format import SourceField
from gauss.contracts.time import EVENT
from gauss.contracts.time_field import with_event_time
from gauss.contracts.two_sided import TwoSided
from gauss.model.errors import ConfigError
from gauss.stream.driver.blocks import near
from gauss.stream.driver.compile import Design, nested, time_plan
from gauss.stream.driver.plan import FieldRef, PairWork, ReadPlan, encode_fields, to_option
from gauss.stream.engine.running import retry_inlet
from gauss.stream.protocol import Ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def both_sides(session: SparkSession, read: ReadPlan, design: Design) -> tuple[DataFrame, PairWork | None]:
    """What the transform makes of the records of its source and of the topic beside it; or the blocks of both in which
    its pairs are, and what is to be done with them."""
    transform = cast("TwoSided", design.transform)
    beside = design.ref.beside
    assert beside is not None
    if design.processor.source is not None and design.processor.source.topic == beside.topic:
        raise ConfigError(
            f'processor "{read.processor}" can\'t join topic "{beside.topic}" with itself',
            hint="let a passthrough copy it to another topic",
        )
    if transform.merges_records and beside.format != design.input:
        raise ConfigError(
            f'processor "{read.processor}" can\'t put records of two formats together',
            hint="name the other topic's fields in join_fields",
        )
    carries = bool(getattr(transform, "carries", False))
    # The topic beside the source has a retry inlet of its own.
    mine = {name for name in read.start if name in (beside.topic, retry_inlet(read.processor, beside.topic))}
    left = msgspec.structs.replace(read, start=_of(read.start, set(read.start) - mine), keep_data=carries)
    fields = [FieldRef(each.name, each.field_type.name, each.field_type.attrs) for each in _fields(design)]
    right = msgspec.structs.replace(
        read,
        start=_of(read.start, mine),
        format=beside.format,
        fields=encode_fields(fields),
        time=time_plan(design, fields),
        keep_data=transform.merges_records,
    )
    if not transform.blocks_ms:
        return transform.apply_both(*(_records(session, plan) for plan in (left, right))), None
    left, right = (_in_blocks(plan, transform.blocks_ms) for plan in (left, right))
    both = [_records(session, plan) for plan in (left, right)]
    frame = near(both[0], both[1], transform.window_ms, transform.blocks_ms)
    return frame, PairWork(left, right, design.ref)


def _in_blocks(plan: ReadPlan, slot_ms: int) -> ReadPlan:
    assert plan.time is not None
    return msgspec.structs.replace(plan, time=msgspec.structs.replace(plan.time, blocks_ms=slot_ms))


def _of(start: Ends, topics: set[str]) -> Ends:
    return {name: at for name, at in start.items() if name in topics}


def _fields(design: Design) -> list[SourceField]:
    transform, beside = cast("TwoSided", design.transform), design.ref.beside
    assert beside is not None
    fields = list(transform.beside_fields)
    if not transform.time.field:
        return fields
    return with_event_time(fields, transform.time.field, beside.format.build().schema())


def _records(session: SparkSession, plan: ReadPlan) -> DataFrame:
    assert plan.time is not None
    records = session.readStream.format("gauss").option("plan", to_option(plan)).load()
    records = records.withWatermark(EVENT, f"{plan.time.timing.watermark_ms} milliseconds")
    return records if plan.time.blocks_ms else nested(records, plan.decoded().names)
