"""Replays dead letters: each becomes one row by the newest config, or stays a dead letter with the newest reason.

A letter is inserted as a block of its own offset and read back by it, so that a replay after an unclear end, or one
more at the same time, adds nothing. In a table without `_inc` and `_offset` only its token is compared.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pyarrow as pa

from gauss.contracts.table import RowBlock
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.letters import Place, StoredLetter
from gauss.fleet.worker.configs import PipelineConfigs
from gauss.fleet.worker.range_work import MOST_LETTER_BYTES, Opened, kept_records, open_config
from gauss.model.batch import RECORD_SCHEMA
from gauss.tables.insert import Waits, insert_block

MOST_LETTERS = 200
"""Of one call."""
_WAITS = Waits(settle_s=0.0, patience_s=5.0)
_one_at_a_time = threading.Lock()
"""What is opened holds decoders that are for one thread."""


class Replayed(NamedTuple):
    """What became of a letter."""

    inc: int
    offset: int
    outcome: Literal["replayed", "filtered", "refused", "gone"]
    """`replayed`: it is a row now. `filtered`: the filter leaves it out. Both remove the letter. `refused`: it stays.
    `gone`: it was replayed or discarded before."""
    reason: str = ""


def replay(store: FleetStore, pipeline_id: str, places: Sequence[Place], who: str) -> list[Replayed]:
    """Raises Unavailable if ClickHouse does not answer; letters that were replayed until then are gone."""
    version = store.pipelines.get(pipeline_id).version
    letters = {(each.origin.inc, each.letter.offset): each for each in store.letters.at(pipeline_id, places)}
    if not letters:
        return [Replayed(*place, "gone") for place in places]
    config = PipelineConfigs(store, pipeline_id).at(version)
    found: list[Replayed] = []
    with _one_at_a_time:
        opened = open_config(config)
        try:
            for place in dict.fromkeys(places):
                letter = letters.get(place)
                done = Replayed(*place, "gone") if letter is None else _replay(opened, pipeline_id, letter)
                if letter is not None and done.outcome in ("replayed", "filtered"):
                    store.letters.replayed(pipeline_id, letter, who)
                found.append(done)
        finally:
            opened.table.store.close()
    return found


def _replay(opened: Opened, pipeline_id: str, stored: StoredLetter) -> Replayed:
    inc, offset = stored.origin.inc, stored.letter.offset
    if stored.edited is None and len(stored.letter.data or b"") >= MOST_LETTER_BYTES:
        return Replayed(inc, offset, "refused", "only the first MiB of the record was kept; edit it")
    record = {"offset": offset, "ts_ms": stored.letter.ts_ms, "data": stored.newest}
    batch = pa.RecordBatch.from_pylist([record], schema=RECORD_SCHEMA)
    kept, letters = kept_records(opened.filter, batch)
    if letters:
        return Replayed(inc, offset, "refused", letters[0].detail or letters[0].reason)
    if not len(kept):
        return Replayed(inc, offset, "filtered")
    mapped = opened.mapper.rows(kept)
    if mapped is None:
        return Replayed(inc, offset, "refused", "the record is too large")
    refused = list(mapped.refusals)
    if not refused:
        block = RowBlock(pipeline_id, 0, 0, inc, offset, offset + 1, mapped.groups, unclear=True)
        refused = insert_block(opened.table.store, block, _WAITS)
    if refused:
        return Replayed(inc, offset, "refused", f"{refused[0].column}: {refused[0].detail}".removeprefix(": "))
    return Replayed(inc, offset, "replayed")
