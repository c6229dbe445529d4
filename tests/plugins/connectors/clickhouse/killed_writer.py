"""A process that forks a writer per line of its input, and says how it ended.

A writer runs one stream into ClickHouse from where the watermark is, and kills itself before, during or after one of
its requests to the server.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from gauss.contracts.connector.cursor import Int64Cursor
from gauss.contracts.connector.stream import Append, Replace, SyncMode, Upsert, WriteMode
from helpers.destinations import FULL, INCREMENTAL, batch, emit
from helpers.killed_writers import serve
from plugins.connectors.clickhouse.writing import DestinationFixture

BATCHES, BATCH_ROWS = 3, 2
MODES: dict[str, tuple[SyncMode, WriteMode]] = {
    "append": (INCREMENTAL, Append()),
    "upsert": (INCREMENTAL, Upsert(["a"])),
    "replace": (FULL, Replace()),
    "refresh": (FULL, Append()),
}


def rows(number: int) -> pa.RecordBatch:
    """Batch 1 has the rows 1 and 2, and so on. All have the same content but for their number."""
    first = (number - 1) * BATCH_ROWS + 1
    return batch(a=list(range(first, first + BATCH_ROWS)), b=["x"] * BATCH_ROWS)


def die_at(step: int) -> None:
    """Kills this process at a step: before a request, when it is sent, or when it is answered."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def stepped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            tick()
            return function(*args, **kwargs)

        return call

    urlopen = HTTPConnectionPool.urlopen

    def answered(*args: Any, **kwargs: Any) -> Any:
        answer = urlopen(*args, **kwargs)
        tick()
        return answer

    HTTPConnectionPool.urlopen = stepped(answered)  # type: ignore[method-assign]
    HTTPConnection.getresponse = stepped(HTTPConnection.getresponse)  # type: ignore[method-assign]


def write(order: dict[str, Any]) -> None:
    """One run, as ordered."""
    destination = DestinationFixture(order["url"], order["database"])
    stream = destination.stream(*MODES[order["mode"]])
    generation = order["generation"]
    run, source = destination.start(stream, generation)
    made = destination.open(run)
    die_at(order["die_at"])
    destination.prepare(made, stream, rows(1).schema, generation)
    mark = made.watermark(stream, "") if stream.sync_mode is INCREMENTAL else None
    done = mark.cursor.value if mark is not None and isinstance(mark.cursor, Int64Cursor) else 0
    emit(source, [rows(number) for number in range(done + 1, BATCHES + 1)], first=done)
    made.run_write(stream)
    made.finish(stream, generation)
    made.close()


if __name__ == "__main__":
    serve(write)
