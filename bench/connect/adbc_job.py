"""ADBC → ADBC, in a venv of its own: one thread reads, another writes, with a bounded queue between them.

Arguments: the URL, the tables to copy one after the other. Prints the seconds of the last.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator

import adbc_driver_postgresql.dbapi as adbc  # type: ignore[import-not-found]
import pyarrow as pa

IN_FLIGHT = 8


def copy(url: str, table: str) -> float:
    waiting: queue.Queue[pa.RecordBatch | pa.Schema | None] = queue.Queue(IN_FLIGHT)

    def read() -> None:
        with adbc.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            rows = cursor.fetch_record_batch()
            waiting.put(rows.schema)
            for batch in rows:
                waiting.put(batch)
        waiting.put(None)

    def batches() -> Iterator[pa.RecordBatch]:
        while (batch := waiting.get()) is not None:
            yield batch

    began = time.perf_counter()
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    with adbc.connect(url) as connection, connection.cursor() as cursor:
        rows = pa.RecordBatchReader.from_batches(waiting.get(), batches())
        cursor.adbc_ingest(table, rows, mode="create", db_schema_name="landing")
        connection.commit()
    reading.join()
    return time.perf_counter() - began


def main(url: str, *tables: str) -> None:
    print([copy(url, table) for table in tables][-1])


main(*sys.argv[1:])
