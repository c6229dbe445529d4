"""One attempt at a stream: opens a source and a destination, runs both side by side, closes both."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gauss.connect.features import check_reading, check_writing
from gauss.connect.host import StreamHost, StreamRun
from gauss.connect.typed import typed as typed  # noqa: PLC0414 (others import it with the names below)
from gauss.contracts.connector.connector import Connector, Destination, Source
from gauss.contracts.connector.errors import BackoffClass, ConnectorError
from gauss.contracts.connector.lifecycle import PROTOCOL_VERSION, ConfigBlob, OpenContext, OpenInfo
from gauss.contracts.connector.progress import CheckpointKind, ReadSummary, WriteSummary

log = logging.getLogger("gauss.connect")
C = TypeVar("C", bound=Connector)


@dataclass(frozen=True)
class Side:
    """A connector of one side of a stream: how it is made, and what it is opened with."""

    make: Callable[[StreamHost], Any]
    id: str
    """Its name in checkpoints, metrics and state, such as `source-postgres`."""
    version: str
    config: ConfigBlob

    def open(self, host: StreamHost) -> tuple[Any, OpenInfo]:
        """A connector that has been opened; closed again if it does not speak the protocol."""
        made = typed(lambda: self.make(host))
        host.attach(made)
        info = typed(lambda: made.open(OpenContext(self.config, self.id, self.version)))
        if not isinstance(info, OpenInfo):
            close(made)
            raise ConnectorError.internal(
                "BAD_OPEN", f"{self.id}: open returns an OpenInfo, found {type(info).__name__}"
            )
        if info.protocol_version != PROTOCOL_VERSION:
            close(made)
            raise ConnectorError.config(
                "WRONG_PROTOCOL",
                f'{self.id} speaks protocol version "{info.protocol_version}", expected "{PROTOCOL_VERSION}"',
            )
        return made, info


@dataclass
class Outcome:
    """What became of an attempt."""

    read: ReadSummary | None = None
    write: WriteSummary | None = None
    error: ConnectorError | None = None
    """What ended it first; None if both sides came to their end."""


class Attempt:
    """Runs the two sides of a stream in two threads. `drain` and `break_off` may be called by any other."""

    def __init__(self, run: StreamRun, source: Side, destination: Side) -> None:
        self.run = run
        self._sides = {CheckpointKind.SOURCE: source, CheckpointKind.DEST: destination}
        self._outcome = Outcome()
        self._lock = threading.Lock()

    def drain(self) -> None:
        """Ends the source; what it has emitted is still written."""
        self.run.drain()

    def break_off(self, error: ConnectorError) -> None:
        """Ends both sides where they are."""
        self._fail(error)
        self.run.interrupt()

    def __call__(self) -> Outcome:
        """Runs to the end of both sides; raises nothing."""
        writing = threading.Thread(target=self._guarded, args=(self._write,), name="destination", daemon=True)
        writing.start()
        self._guarded(self._read)
        writing.join()
        return self._outcome

    def _guarded(self, side: Callable[[], None]) -> None:
        try:
            typed(side)
        except ConnectorError as error:
            self._fail(error)
        except BaseException as error:  # such as SystemExit: the other side must not wait for this one
            self._fail(ConnectorError.internal("UNEXPECTED", f"{type(error).__name__}: {error}"))

    def _fail(self, error: ConnectorError) -> None:
        with self._lock:
            self._outcome.error = self._outcome.error or error
        self.run.break_off(error)

    def _read(self) -> None:
        host = StreamHost(self.run, CheckpointKind.SOURCE, self._sides[CheckpointKind.SOURCE].id)

        def work(source: Source, info: OpenInfo) -> None:
            check_reading(host.connector, info, self.run.stream)
            try:
                found = typed(lambda: source.run_read(self.run.stream))
                self._outcome.read = found if isinstance(found, ReadSummary) else None
                host.end()
            except ConnectorError as error:
                # A source that is drained is interrupted in its emit, and has done what was asked of it.
                if not (self.run.cancel.is_set() and error.code == "CANCELLED" and self._outcome.error is None):
                    raise
                host.end()

        self._opened(host, work)

    def _write(self) -> None:
        host = StreamHost(self.run, CheckpointKind.DEST, self._sides[CheckpointKind.DEST].id)

        def work(destination: Destination, info: OpenInfo) -> None:
            check_writing(host.connector, info, self.run.stream)
            found = typed(lambda: destination.run_write(self.run.stream))
            self._outcome.write = found if isinstance(found, WriteSummary) else None
            if self.run.channel.broken is not None:  # it went on after an error
                raise self.run.channel.broken
            if not self.run.channel.is_over():
                raise ConnectorError.internal("ENDED_EARLY", f"{host.connector} returned before the end of the stream")

        self._opened(host, work)

    def _opened(self, host: StreamHost, work: Callable[[Any, OpenInfo], None]) -> None:
        connector, info = self._sides[host.kind].open(host)
        try:
            work(connector, info)
        finally:
            close(connector)


def close(connector: Connector) -> None:
    """Closes a connector; an error is only logged, since its work is done or has failed already."""
    try:
        connector.close()
    except Exception as error:
        log.warning("%s: close failed: %s", type(connector).__name__, error)


PAUSES_S = {BackoffClass.FAST: 0.1, BackoffClass.NORMAL: 1.0, BackoffClass.SLOW: 5.0}
LONGEST_PAUSE_S = 60.0
LONGEST_WISH_S = 3_600.0
"""A peer that asks for a longer pause is asked again after this one."""


def pause_s(error: ConnectorError, failures: int) -> float:
    """How long to wait before the next attempt, after so many failures in a row."""
    if error.retry_after_ms is not None:
        return min(error.retry_after_ms, LONGEST_WISH_S * 1000) / 1000
    return min(PAUSES_S[error.backoff_class] * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_S)
