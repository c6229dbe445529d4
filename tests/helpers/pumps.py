"""A running transform inside the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Changed
from gauss.contracts.letter import Letter
from gauss.model.errors import ConfigError
from gauss.stream.engine.edges.pump import Pump
from helpers.delivery import Delivery


class Upper:
    """Converts records to upper case; a record with `!` becomes a dead letter, one with `?` raises an error."""

    def apply(self, chunk: Chunk, offset: int) -> Changed:
        data = chunk.data()
        if pc.any(pc.match_substring(data, "?")).as_py():
            raise ConfigError("can't do this")
        bad = pc.match_substring(data, "!")
        dead = [
            Letter("loud", "", "transform", "", data[index].as_py(), offset=offset + index)
            for index, marked in enumerate(bad.to_pylist())
            if marked
        ]
        kept = pc.utf8_upper(data.filter(pc.invert(bad)).cast(pa.string())).cast(pa.binary())
        return Changed(Chunk(kept, len(kept), chunk.ts_ms), dead)


@contextmanager
def pumping(delivery: Delivery) -> Iterator[Pump]:
    pump = Pump(
        delivery.running,
        "out",
        Upper(),
        topics=delivery.topics,
        ledger=delivery.ledger,
        publisher=delivery.publisher,
        sources=delivery.sources,
    )
    pump.start()
    try:
        yield pump
    finally:
        pump.stop()
        pump.join(60)
        assert not pump.is_alive()
