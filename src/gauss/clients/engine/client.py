"""The engine client of the driver, Spark workers and control. It waits for an engine that is restarting."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.clients.engine.cursor_messages import Pinned, Read
from gauss.clients.engine.driver_messages import DriverSync, DriverSynced
from gauss.clients.engine.positions import At
from gauss.clients.engine.protocol import Command
from gauss.clients.engine.task_messages import (
    Abort,
    Append,
    Busy,
    Claim,
    Claimed,
    Emptied,
    Feed,
    Granted,
    Latest,
    LatestReply,
    Missed,
    Next,
    Outcome,
    ProcessorFailure,
    Publish,
    PublishAll,
    Published,
    Stage,
    StageDead,
    StageTime,
    StillClaimed,
)
from gauss.model.errors import ConfigError, GaussError, ProtocolError, Unavailable, from_dict
from gauss.process import locks

if TYPE_CHECKING:
    from gauss.clients.engine.cursors import RemoteCursor, Scanning
    from gauss.contracts.cursor import Program

STAGE_SCHEMA = pa.schema([pa.field("ts_ms", pa.int64()), pa.field("data", pa.binary())])
"""Columns of staged records; `ts_ms` null or below 0 becomes the largest time of the epoch's inputs."""

# gRPC's default backoff to an unavailable server grows to two minutes.
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
]

NOTHING = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in STAGE_SCHEMA], schema=STAGE_SCHEMA)

GONE = (flight.FlightUnavailableError, flight.FlightInternalError, flight.FlightCancelledError)
"""Errors of a call when the engine is down or stops during the call."""

T = TypeVar("T")

_used_by = 0
_locks: dict[tuple[int, str], int] = {}


class EngineClient:
    """A thread-safe client. It connects at the first call, so that it may be created before a fork."""

    def __init__(self, endpoint: str, token: str, *, lock: str = "", wait_s: float = 60.0) -> None:
        self.endpoint = endpoint
        self._token = token
        self._lock_path = lock
        self._wait_s = wait_s
        self._mutex = threading.Lock()
        self._pid = 0
        self._flight: Any = None

    @classmethod
    def from_file(cls, flight_json: Path, *, wait_s: float = 60.0) -> EngineClient:
        """A client for the engine of a run, by the path of its `run/flight.json`."""
        try:
            found = json.loads(flight_json.read_text())
        except FileNotFoundError as error:
            raise Unavailable(f"no engine is running: {flight_json} is missing", hint="start it: gauss run") from error
        return cls(found["endpoint"], found["token"], lock=found.get("lock", ""), wait_s=wait_s)

    def _connection(self) -> Any:
        with self._mutex:
            if self._pid != os.getpid():
                _first_use_in_this_process()
                hold_run_lock(self._lock_path)
                self._flight = flight.FlightClient(self.endpoint, generic_options=RECONNECT)
                self._pid = os.getpid()
            return self._flight

    def _options(self, timeout: float | None = None) -> Any:
        return flight.FlightCallOptions(
            timeout=timeout, headers=[(b"authorization", b"Bearer " + self._token.encode())]
        )

    def _call(self, attempt: Callable[[], T], wait_s: float | None = None) -> T:
        """Runs an idempotent call; retries it while the engine is down."""
        deadline = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
        pause = 0.05
        while True:
            try:
                return attempt()
            except GONE as error:
                if time.monotonic() + pause > deadline:
                    raise Unavailable(
                        f"the engine at {self.endpoint} does not answer",
                        hint="check that `gauss run` is running; see logs/engine.log in the data directory",
                    ) from error
            except (flight.FlightError, pa.ArrowException) as error:
                raise as_gauss_error(error) from error
            time.sleep(pause)
            pause = min(pause * 2, 0.2)

    def _action(self, body: msgspec.Struct, reply: type[T], wait_s: float | None = None) -> T:
        action = flight.Action("call", msgspec.json.encode(body))

        def attempt() -> T:
            results = self._connection().do_action(action, self._options())
            return msgspec.json.decode(next(iter(results)).body.to_pybytes(), type=reply)

        return self._call(attempt, wait_s)

    def claim(self, claim: Claim) -> Claimed:
        """Starts a processor under a new generation."""
        return self._action(claim, Claimed)

    def check_claim(self, claim: StillClaimed) -> None:
        """Raises Fenced if a later claim has replaced this one."""
        self._action(claim, dict[str, bool])

    def latest(self, latest: Latest) -> LatestReply:
        """The end of the next batch."""
        return self._action(latest, LatestReply)

    def pinned(self, pinned: Pinned) -> At:
        """The version of a table that a batch is joined with."""
        return self._action(pinned, At)

    def next(self, ask: Next) -> Granted:
        """The next epochs of a standing task."""
        return self._action(ask, Granted)

    def report_failure(self, failure: ProcessorFailure) -> None:
        """Reports the failure of a processor in a task that continues."""
        self._action(failure, dict[str, bool])

    def busy(self, busy: Busy) -> None:
        """Reports the processor on which a task has been working for some time."""
        self._action(busy, dict[str, bool], wait_s=0)

    def missed(self, missed: Missed) -> None:
        """Reports records that were deleted before a task has read them."""
        self._action(missed, dict[str, bool])

    def emptied(self, emptied: Emptied) -> None:
        """Reports that a table to rebuild is emptied."""
        self._action(emptied, dict[str, bool])

    def publish_all(self, publishes: PublishAll) -> list[Outcome]:
        """Publishes epochs of several processors. Idempotent."""
        return self._action(publishes, list[Outcome])

    def publish(self, publish: Publish) -> Published:
        """Publishes an epoch. Idempotent."""
        return self._action(publish, Published)

    def abort(self, abort: Abort) -> None:
        self._action(abort, dict[str, int])

    def stage_dead(self, dead: StageDead) -> None:
        """Stages dead letters for the epoch that contains their range."""
        self._action(dead, dict[str, int])

    def stage_time(self, time: StageTime) -> None:
        """Stages the event times of a range for the epoch that contains it."""
        self._action(time, dict[str, int])

    def sync(self, queries: DriverSync) -> DriverSynced:
        """Sends the driver's heartbeat."""
        return self._action(queries, DriverSynced)

    def command(self, name: str, args: dict[str, Any] | None = None, *, wait_s: float | None = None) -> dict[str, Any]:
        """Runs a command of the engine by name; `wait_s`: how long to wait for an engine that is down."""
        return self._action(Command(name, args or {}), dict[str, Any], wait_s)

    def read(self, read: Read) -> Iterator[pa.RecordBatch]:
        """The records of a range; continues after the last returned one if the engine restarts."""
        start, reader = read.start, None
        while start < read.stop:
            if reader is None:
                ticket = msgspec.structs.replace(read, start=start)
                # If the engine is down, a stream fails at its first batch, which is therefore part of the retried call.
                reader, batch = self._call(lambda ticket=ticket: self._begun(ticket))  # type: ignore[misc]
            else:
                try:
                    batch = next(reader, None)
                except GONE:
                    reader = None
                    continue
                except (flight.FlightError, pa.ArrowException) as error:
                    raise as_gauss_error(error) from error
            if batch is None:
                return
            yield batch.data
            start = batch.data.column(0)[-1].as_py() + 1

    def read_made(self, read: Read) -> list[pa.RecordBatch]:
        """The complete result of the ticket's program for its range; repeated if the engine restarts."""
        return self._call(lambda: [chunk.data for chunk in self._get(read)])

    def _begun(self, ticket: Read) -> tuple[Any, Any]:
        """A stream and its first batch."""
        reader = iter(self._get(ticket))
        return reader, next(reader, None)

    def scan(self, topic: str, program: Program | str = "") -> Iterator[pa.RecordBatch]:
        """The rows of a scan. A live scan ends when the engine stops or the generator is closed."""
        scanning = self.scanning(topic, program)
        try:
            yield from scanning.batches()
        except GONE as error:
            if not scanning.live:
                raise Unavailable("the engine stopped during the scan", hint="scan again") from error
        except (flight.FlightError, pa.ArrowException) as error:
            raise as_gauss_error(error) from error
        finally:
            scanning.cancel()

    def scanning(self, topic: str, program: Program | str = "", *, name: str = "", rows: bool = False) -> Scanning:
        """A running scan, which any thread may cancel; its iterator raises FlightError if the engine stops. `rows`: of
        the newest record of each key of a log."""
        from gauss.clients.engine.cursors import Scanning, parsed

        def oldest() -> At | None:
            found = self.command("topic", {"name": topic})
            return At(int(found["inc"]), int(found["floor"])) if "offset" in found["read_modes"] else None

        return Scanning(lambda asked: self.scan_cursor(topic, asked, name=name, rows=rows), oldest, parsed(program))

    def scan_cursor(
        self,
        topic: str,
        program: Program | str = "",
        *,
        inc: int | None = None,
        name: str = "",
        held: int | None = None,
        returns: bool = False,
        rows: bool = False,
    ) -> RemoteCursor:
        """A cursor over a topic, pinned at the current version; `program`: a program, or the text of a snapshot scan.
        `held`: a table version that is retained for the reader. `returns`: the reader will reopen at its position.
        `rows`: over the newest record of each key of a log."""
        from gauss.clients.engine.cursors import RemoteCursor, opening, parsed

        asked = parsed(program)
        head = opening(topic, asked, inc=inc, name=name, held=held, returns=returns, rows=rows)
        return self._call(lambda: RemoteCursor(self._connection(), self._options(), head))

    def _get(self, ticket: Read) -> Any:
        return self._connection().do_get(flight.Ticket(msgspec.json.encode(ticket)), self._options())

    def stage(self, stage: Stage, batches: Iterable[pa.RecordBatch]) -> int:
        """Stages one task's records for one topic; returns their number. Sends all again if the engine restarts."""
        kept = list(batches)
        return self._call(lambda: self._put(stage, kept))

    def append(self, topic: str, batches: Iterable[pa.RecordBatch]) -> int:
        """Appends records at once: `data`, and `ts_ms` unless it is the arrival time. Not retried, since a retry could
        duplicate them."""
        self.command("health")
        try:
            return self._put(Append(topic), batches)
        except GONE as error:
            raise Unavailable("the engine stopped during the append: some records may be in the topic") from error
        except (flight.FlightError, pa.ArrowException) as error:
            raise as_gauss_error(error) from error

    def feed(self, feed: Feed, batches: Iterable[pa.RecordBatch]) -> int:
        """Commits records of an outside writer with its position; returns the number of records, 0 if they were
        committed before. Idempotent: sends all again if the engine restarts."""
        kept = list(batches)
        whole = msgspec.structs.replace(feed, records=sum(batch.num_rows for batch in kept))
        return self._call(lambda: self._put(whole, kept))

    def _put(self, head: Stage | Append | Feed, batches: Iterable[pa.RecordBatch]) -> int:
        descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(head))
        rest = iter(batches)
        first = next(rest, NOTHING)
        writer, replies = self._connection().do_put(descriptor, first.schema, self._options())
        try:
            for batch in itertools.chain([first], rest):
                writer.write_batch(batch)
            writer.done_writing()
            reply = replies.read()
        finally:
            writer.close()
        if reply is None:
            raise flight.FlightUnavailableError("no answer")
        return int(json.loads(reply.to_pybytes())["rows"])

    def close(self) -> None:
        with self._mutex:
            if self._flight is not None and self._pid == os.getpid():
                self._flight.close()
            self._flight, self._pid = None, 0


def _first_use_in_this_process() -> None:
    """Raises ProtocolError in a child that was forked from a connected process: it would hang forever inside gRPC."""
    global _used_by
    if _used_by not in (0, os.getpid()):
        raise ProtocolError(
            f"process {os.getpid()} was forked from one that is already connected to the engine",
            hint="connect after the fork, or spawn the process",
        )
    _used_by = os.getpid()


def hold_run_lock(path: str) -> None:
    """Holds the run's lock shared until this process exits: the next run waits for all processes of this one."""
    key = (os.getpid(), path)
    if not path or key in _locks:
        return
    try:
        _locks[key] = locks.share(Path(path))
    except FileNotFoundError:
        pass  # an executor on another machine, which has no run lock


def as_gauss_error(error: Exception) -> GaussError:
    """The error that the engine raised, as an instance of its original class."""
    text = str(error)
    if (begin := text.find('{"code"')) >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, begin)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return from_dict(found)
    if isinstance(error, flight.FlightUnauthenticatedError):
        return ConfigError("the engine rejected the token", hint="a new run has another one: read run/flight.json")
    return GaussError(text.split(". gRPC client debug context", maxsplit=1)[0])
