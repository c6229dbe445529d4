"""The newest records of a topic, bounded at any rate: what a page shows of a topic that it reads again and again."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Query, Response

from gauss.api.newest_rows import SEARCHED as SEARCHED_ROWS
from gauss.api.newest_rows import newest_rows, newest_window
from gauss.api.reading import TopicReading
from gauss.api.records import MOST, Decode, rows
from gauss.api.stored import is_stored
from gauss.contracts.cursor import Program, Seq, TimeRange
from gauss.contracts.expression import Select
from gauss.contracts.storage import TopicKind
from gauss.model.errors import Collected
from gauss.scan.program.parse import parse
from gauss.stream.control.run import Running
from gauss.stream.formats import topic_format

MOST_RECORDS = 500
SEARCHED = 5_000
"""Newest records in which a condition is looked for."""


def routes(running: Running) -> APIRouter:
    router = APIRouter(prefix="/api/topics", tags=["topics"])
    reading = TopicReading(running)

    @router.get("/{name}/latest", summary="The newest records; those in between are skipped and counted")
    def latest(
        name: str,
        *,
        count: Annotated[int, Query(ge=1, le=MOST_RECORDS, description="maximum records")] = 50,
        after: Annotated[int | None, Query(ge=0, le=MOST, description="`end` of the previous answer")] = None,
        where: Annotated[str | None, Query(description="only records that match, of the newest 5,000")] = None,
        oldest: Annotated[bool, Query(description="tell the time of the oldest record, too; none of a table")] = False,
        decoded: Annotated[bool, Query(description="decode `data` with the topic's format")] = False,
    ) -> Response:
        row = reading.known(name)
        found = topic_format(running.pipeline, name)
        decode = reading.decoder(found.name) if decoded and found is not None else None
        searched: int | None = None  # not known of tables
        matched = 0
        if is_stored(running.pipeline, name):
            shown = newest_rows(running, name, count, where)
            seen, end = len(shown), row["end"]
        elif row["kind"] == TopicKind.TABLE:
            end, first = row["end"], 0 if after is None or after > row["end"] else after
            shown = []
            if first < end:
                view = TimeRange(newest_window(running, name, SEARCHED_ROWS if where else count), None)
                shown = _newest(running, name, _program(view, where, json=found is None), decode, count).rows
            shown = [each for each in shown if each["offset"] > first]  # the end of a table is its last version
            seen = end - first
        else:
            end = row["end"]
            first = row["floor"] if after is None or after > end else max(after, row["floor"])
            start = max(first, end - (SEARCHED if where else count))
            newest = _newest(running, name, _program(Seq(start), where, json=found is None), decode, count)
            shown, matched, end = newest  # of a topic that is written this is behind the end above
            seen, searched = end - first, end - start
        answer = {
            "records": shown,
            "end": end,
            "seen": max(seen, len(shown)),
            "searched": searched,
            "matched": matched if searched is not None else len(shown),
            "format": found and found._asdict(),
            "whole": is_stored(running.pipeline, name),  # rows of an external table have no place to go on from
        }
        if oldest:
            answer["oldest_ms"] = _oldest_ms(running, reading, name)
        return Response(msgspec.json.encode(answer, enc_hook=str), media_type="application/json")

    return router


class Newest(NamedTuple):
    """The last records of a scan."""

    rows: list[dict[str, Any]]
    matched: int
    """The number of all records that it gave."""
    end: int
    """Of the topic when the scan began."""


def _program(view: Seq | TimeRange, where: str | None, *, json: bool) -> Program:
    stages = (Select(parse(where).root),) if where else ()
    return Program(view, stages=stages, format="json" if stages and json else "", text=where or "")


def _newest(running: Running, name: str, program: Program, decode: Decode | None, count: int) -> Newest:
    """The last records of a scan, in order."""
    kept: list[pa.RecordBatch] = []
    total = 0
    tail = running.client().tail(name, program, full=True)
    try:
        for batch in tail:
            kept.append(batch)
            total += len(batch)
            while sum(map(len, kept)) - len(kept[0]) >= count:
                kept.pop(0)
    finally:
        tail.cancel()
    # A table gives its rows by key.
    shown = [row for batch in kept for row in rows(batch, decode)]
    last = sorted(shown, key=lambda row: int(row["offset"]))[-count:]
    return Newest(last, total, tail.scanning.cursor.pinned_version)


def _oldest_ms(running: Running, reading: TopicReading, name: str) -> int | None:
    """The time of the first record; of one shortly behind it in a ring whose first ones are just overwritten. None of a
    table: its rows have no order of age."""
    if reading.known(name)["kind"] in (TopicKind.TABLE, TopicKind.STORED_TABLE):
        return None
    for share in (0.0, 0.01, 0.05):
        row = reading.known(name)
        tail = running.client().tail(name, Program(Seq(row["floor"] + int(share * row["records"]))), limit=1)
        try:
            times = [int(batch.column("ts_ms")[0].as_py()) for batch in tail if len(batch)]
        except Collected:
            continue
        finally:
            tail.cancel()
        return min(times, default=None)
    return None
