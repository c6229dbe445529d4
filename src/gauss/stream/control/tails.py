"""Control's client of the engine: it answers people, so that it neither waits for ever nor holds them up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.contracts.cursor import Program
from gauss.model.errors import GaussError, Unavailable
from gauss.stream.client import GONE, EngineClient, as_gauss_error
from gauss.stream.cursors import Scanning
from gauss.stream.protocol import Command

_ANSWER_SECONDS = 2.0


class Tail:
    """A scan under way; iterate it and keep it in one thread, cancel it from any."""

    def __init__(self, scanning: Scanning, limit: int | None, full: bool) -> None:
        self.scanning = scanning
        self._limit = limit
        self._full = full
        self._cancelled = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.scanning.batches(self._limit, full=self._full)
        except (flight.FlightError, pa.ArrowException) as error:
            self._judge(error)

    def _judge(self, error: Exception) -> None:
        if self._cancelled:
            return
        if not isinstance(error, GONE):
            raise as_gauss_error(error) from error
        if not self.scanning.live:  # a live one ends, and its reader opens another
            raise Unavailable("the engine went away in the middle of the scan", hint="scan again") from error

    def keep(self) -> None:
        """The reader is slow, not gone."""
        try:
            self.scanning.keep()
        except (flight.FlightError, pa.ArrowException) as error:
            self._judge(error)

    def cancel(self) -> None:
        self._cancelled = True
        self.scanning.cancel()


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

    def tail(
        self, topic: str, program: Program, *, limit: int | None = None, full: bool = False, name: str = "http"
    ) -> Tail:
        """Begins a scan, snapshot or live; its first batches are small unless they shall be `full`."""
        return Tail(self.scanning(topic, program, name=name), limit, full)
