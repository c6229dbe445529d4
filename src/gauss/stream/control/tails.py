"""Control's client of the engine: a scan that waits for new records can be ended from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

from gauss.stream.client import GONE, EngineClient, as_gauss_error
from gauss.stream.protocol import Scan


class Tail:
    """A live scan under way; iterate it in one thread, cancel it from any."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._cancelled = threading.Event()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for chunk in self._reader:
                if chunk.data.num_rows:
                    yield chunk.data
        except GONE:
            return  # cancelled, or the engine restarts: a tail ends, and its reader opens another
        except (flight.FlightError, pa.ArrowException) as error:
            if not self._cancelled.is_set():
                raise as_gauss_error(error) from error

    def cancel(self) -> None:
        self._cancelled.set()
        self._reader.cancel()


class ControlClient(EngineClient):
    def tail(self, scan: Scan) -> Tail:
        """Begins a live scan."""
        return Tail(self._call(lambda: self._get(scan)))
