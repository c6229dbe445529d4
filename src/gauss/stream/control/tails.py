"""Control's client of the engine: a scan that waits for new records can be ended from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.model.errors import GaussError, Unavailable
from gauss.stream.client import GONE, EngineClient, as_gauss_error
from gauss.stream.protocol import Command, Scan

_ANSWER_SECONDS = 2.0


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
    """Unlike Spark's clients it does not wait for ever: a person, or a probe, waits for the answer."""

    def command(self, name: str, args: dict[str, Any] | None = None, *, wait_s: float | None = None) -> dict[str, Any]:
        """Anything of `engine/commands.py`; Unavailable when no answer comes within the wait and a little."""
        return self._answer(name, args, self._wait_s if wait_s is None else wait_s, _ANSWER_SECONDS)

    def ping(self, seconds: float) -> dict[str, Any]:
        """Whether the engine is alive: an answer within the time, or Unavailable."""
        return self._answer("ping", None, seconds, 0.0)

    def _answer(self, name: str, args: dict[str, Any] | None, wait_s: float, more: float) -> dict[str, Any]:
        seconds = wait_s + more
        action = flight.Action("call", msgspec.json.encode(Command(name, args or {})))

        def attempt() -> dict[str, Any]:
            results = self._connection().do_action(action, self._options(seconds))
            found: dict[str, Any] = msgspec.json.decode(next(iter(results)).body.to_pybytes())
            return found

        try:
            return self._call(attempt, wait_s)
        except GaussError as error:
            if isinstance(error.__cause__, flight.FlightTimedOutError):
                raise Unavailable(f"the engine has not answered within {seconds:.0f} s") from error
            raise

    def tail(self, scan: Scan) -> Tail:
        """Begins a live scan."""
        return Tail(self._call(lambda: self._get(scan)))
