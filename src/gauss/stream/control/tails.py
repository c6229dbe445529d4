"""The engine client of the control process. Its waits are bounded, because users and health checks wait for replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.clients.engine.client import GONE, EngineClient, as_gauss_error
from gauss.clients.engine.cursors import Scanning
from gauss.clients.engine.protocol import Command
from gauss.contracts.cursor import Program
from gauss.model.errors import GaussError, Unavailable

_ANSWER_SECONDS = 2.0


class RunningScan:
    """A running scan. Iterate and `keep` it in one thread; `cancel` it from any."""

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
        if not self.scanning.live:  # a live scan ends, and its reader opens another
            raise Unavailable("the engine stopped during the scan", hint="scan again") from error

    def keep(self) -> None:
        """Renews the scan for a slow reader."""
        try:
            self.scanning.keep()
        except (flight.FlightError, pa.ArrowException) as error:
            self._judge(error)

    def cancel(self) -> None:
        self._cancelled = True
        self.scanning.cancel()


class ControlClient(EngineClient):
    """An engine client with bounded waits, unlike the clients of Spark tasks."""

    def command(self, name: str, args: dict[str, Any] | None = None, *, wait_s: float | None = None) -> dict[str, Any]:
        """Runs a command of the engine; raises Unavailable if there is no reply in time."""
        return self._answer(name, args, self._wait_s if wait_s is None else wait_s, _ANSWER_SECONDS)

    def ping(self, seconds: float) -> dict[str, Any]:
        """Asks whether the engine is alive; raises Unavailable if there is no reply in time."""
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
                raise Unavailable(f"the engine did not answer within {seconds:.0f} s") from error
            raise

    def tail(
        self,
        topic: str,
        program: Program,
        *,
        limit: int | None = None,
        full: bool = False,
        name: str = "http",
        rows: bool = False,
    ) -> RunningScan:
        """Starts a snapshot or live scan; its first batches are small unless `full`."""
        return RunningScan(self.scanning(topic, program, name=name, rows=rows), limit, full)
