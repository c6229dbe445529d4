"""A Flight server that answers every message of an exchange with the same batch: what a step can cost at the least.

Run as a module it serves; `exchange` talks to one."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pyarrow as pa
from pyarrow import flight


class Server(flight.FlightServerBase):  # type: ignore[misc]
    def do_exchange(self, _context: Any, _descriptor: Any, reader: Any, writer: Any) -> None:
        batch: pa.RecordBatch | None = None
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            if batch is None:
                batch = chunk.data
                writer.begin(batch.schema)
            else:
                writer.write_with_metadata(batch, b"-" * 17)


def exchange(batch: pa.RecordBatch, times: int, *, again: bool) -> list[float]:
    """The seconds of each message and its answer; `again`: with one more under way at all times."""
    server = subprocess.Popen([sys.executable, "-m", "bench.bare_flight"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = []
    try:
        with flight.connect(f"grpc://127.0.0.1:{server.stdout.readline().strip()}") as client:
            writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b""))
            writer.begin(batch.schema)
            writer.write_batch(batch)
            if again:
                writer.write_metadata(b"-" * 20)
            for _ in range(times):
                began = time.perf_counter()
                writer.write_metadata(b"-" * 20)
                reader.read_chunk()
                found.append(time.perf_counter() - began)
            reader.cancel()
    finally:
        server.kill()
        server.wait()
    return found


if __name__ == "__main__":
    serving = Server("grpc://127.0.0.1:0")
    print(serving.port, flush=True)
    serving.serve()
