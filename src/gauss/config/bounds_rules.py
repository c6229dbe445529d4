"""Rules for the options of `source` that apply to some read modes only: `from`, `to`, `every`, `subscribe`."""

from __future__ import annotations

import time

from gauss.config.entries import Processor
from gauss.config.spec import SourceRef
from gauss.contracts.processor import Role
from gauss.contracts.storage import ReadMode
from gauss.model.units import moment_ms

TAKES = {ReadMode.QUERY: ("from", "to", "every"), ReadMode.SNAPSHOT: ("every",), ReadMode.SUBSCRIBE: ("subscribe",)}


def bounds_fit(processor: Processor) -> None:
    """Reports options that do not apply to the read mode, and empty time ranges."""
    source = processor.definition.source
    if source is None or source.read not in ReadMode._value2member_map_:
        return
    given = {"from": source.from_, "to": source.to, "every": source.every, "subscribe": source.subscribe}
    takes = TAKES.get(ReadMode(source.read), ())
    for key in (key for key, value in given.items() if value is not None and key not in takes):
        modes = " or ".join(f'"{mode}"' for mode, keys in TAKES.items() if key in keys)
        processor.scope.add(
            ("source", key),
            f'"{key}" does not apply to read = "{source.read}"',
            hint=f'remove "{key}", or read by {modes}',
        )
    if source.read == ReadMode.QUERY:
        _range_fits(processor, source)
    is_sink = processor.spec is not None and processor.spec.role is Role.SINK
    if is_sink and source.every is not None and "every" in takes:
        processor.scope.add(
            ("source", "every"),
            '"every" does not apply to a sink: each client gets a snapshot when it connects',
            hint='remove "every"',
        )


def _range_fits(processor: Processor, source: SourceRef) -> None:
    now = int(time.time() * 1000)
    start = moment_ms(source.from_, now) if source.from_ is not None else 0
    stop = moment_ms(source.to, now) if source.to is not None else now
    if start > now:
        hint = 'a query reads existing records; use read = "offset" to wait for new ones'
        processor.scope.add(("source", "from"), '"from" is in the future', found=source.from_, hint=hint)
    elif start > stop:
        processor.scope.add(
            ("source", "from"), '"from" is after "to"', expected='a time not later than "to"', found=source.from_
        )
