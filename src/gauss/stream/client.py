"""A client of the engine: for the driver, Spark's workers and control. It waits for an engine that is restarting."""

from __future__ import annotations

import fcntl
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

from gauss.model.errors import ConfigError, GaussError, ProtocolError, Unavailable, from_dict
from gauss.stream.protocol import (
    Abort,
    Append,
    At,
    Busy,
    Claim,
    Claimed,
    Command,
    DriverSync,
    DriverSynced,
    Emptied,
    Granted,
    Latest,
    LatestReply,
    Next,
    Outcome,
    Pinned,
    Publish,
    PublishAll,
    Published,
    Read,
    Stage,
    StageDead,
    StageTime,
    Trouble,
)

if TYPE_CHECKING:
    from gauss.contracts.cursor import Program
    from gauss.stream.cursors import RemoteCursor, Scanning

STAGE_SCHEMA = pa.schema([pa.field("ts_ms", pa.int64()), pa.field("data", pa.binary())])
"""What is staged: `ts_ms` null or below 0 takes the largest of the epoch's inputs."""

# gRPC by itself waits ever longer, up to two minutes, before it tries a server again that was away.
RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
]

NOTHING = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in STAGE_SCHEMA], schema=STAGE_SCHEMA)

GONE = (flight.FlightUnavailableError, flight.FlightInternalError, flight.FlightCancelledError)
"""What a call meets when the engine is not there or goes away meanwhile."""

T = TypeVar("T")

_used_by = 0
_locks: dict[tuple[int, str], int] = {}
_clients: dict[tuple[int, str, str], EngineClient] = {}


class EngineClient:
    """Calls may come from any thread. It connects at the first call, so that it may be made before a fork."""

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
        """The engine of the run whose `run/flight.json` this is."""
        try:
            found = json.loads(flight_json.read_text())
        except FileNotFoundError as error:
            raise Unavailable(f"no engine runs here: {flight_json} is missing", hint="start it: gauss run") from error
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
        """Runs a call that may be repeated; waits while the engine is away."""
        deadline = time.monotonic() + (self._wait_s if wait_s is None else wait_s)
        pause = 0.05
        while True:
            try:
                return attempt()
            except GONE as error:
                if time.monotonic() + pause > deadline:
                    raise Unavailable(
                        f"the engine at {self.endpoint} does not answer",
                        hint="is `gauss run` still there? its log is logs/engine.log in the data directory",
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

    def latest(self, latest: Latest) -> LatestReply:
        """How far the next batch may go."""
        return self._action(latest, LatestReply)

    def pinned(self, pinned: Pinned) -> At:
        """The version of a table that a batch is joined with."""
        return self._action(pinned, At)

    def next(self, ask: Next) -> Granted:
        """What a standing task may do next."""
        return self._action(ask, Granted)

    def trouble(self, trouble: Trouble) -> None:
        """What a processor failed at, in a task that goes on."""
        self._action(trouble, dict[str, bool])

    def busy(self, busy: Busy) -> None:
        """On whom a task has been at work for some time."""
        self._action(busy, dict[str, bool], wait_s=0)

    def emptied(self, emptied: Emptied) -> None:
        """A rebuilt table may be filled."""
        self._action(emptied, dict[str, bool])

    def publish_all(self, publishes: PublishAll) -> list[Outcome]:
        """Publishes epochs of several processors; repeating it changes nothing."""
        return self._action(publishes, list[Outcome])

    def publish(self, publish: Publish) -> Published:
        """Publishes an epoch; repeating it changes nothing."""
        return self._action(publish, Published)

    def abort(self, abort: Abort) -> None:
        self._action(abort, dict[str, int])

    def stage_dead(self, dead: StageDead) -> None:
        """Keeps dead letters for the epoch that holds their range."""
        self._action(dead, dict[str, int])

    def stage_time(self, time: StageTime) -> None:
        """Keeps what a range's records told of time for the epoch that holds it."""
        self._action(time, dict[str, int])

    def sync(self, queries: DriverSync) -> DriverSynced:
        """The driver's heartbeat."""
        return self._action(queries, DriverSynced)

    def command(self, name: str, args: dict[str, Any] | None = None, *, wait_s: float | None = None) -> dict[str, Any]:
        """Anything of `engine/commands.py`; `wait_s`: how long to wait for an engine that is away."""
        return self._action(Command(name, args or {}), dict[str, Any], wait_s)

    def read(self, read: Read) -> Iterator[pa.RecordBatch]:
        """Records of a range; goes on behind the last one it gave when the engine restarts meanwhile."""
        start, reader = read.start, None
        while start < read.stop:
            if reader is None:
                ticket = msgspec.structs.replace(read, start=start)
                # A stream that is not there fails at its first batch, so that is part of the call that waits.
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
        """What the program of a ticket makes of its range, whole: all is asked again if the engine restarts."""
        return self._call(lambda: [chunk.data for chunk in self._get(read)])

    def _begun(self, ticket: Read) -> tuple[Any, Any]:
        """A stream and its first batch."""
        reader = iter(self._get(ticket))
        return reader, next(reader, None)

    def scan(self, topic: str, program: Program | str = "", *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """What a scan gives, `limit` rows at most. A live one goes on until the engine stops or this generator is
        closed."""
        scanning = self.scanning(topic, program)
        try:
            yield from scanning.batches(limit)
        except GONE as error:
            if not scanning.live:
                raise Unavailable("the engine went away in the middle of a scan", hint="scan again") from error
        except (flight.FlightError, pa.ArrowException) as error:
            raise as_gauss_error(error) from error
        finally:
            scanning.cancel()

    def scanning(self, topic: str, program: Program | str = "", *, name: str = "") -> Scanning:
        """A scan under way, which any thread may cancel; its iterator raises FlightError when the engine goes."""
        from gauss.stream.cursors import Scanning, parsed

        def floor() -> int | None:
            found = self.command("topic", {"name": topic})
            return None if "snapshot" in found["read_modes"] else int(found["floor"])

        return Scanning(lambda asked: self.scan_cursor(topic, asked, name=name), floor, parsed(program))

    def scan_cursor(
        self,
        topic: str,
        program: Program | str = "",
        *,
        inc: int | None = None,
        name: str = "",
        held: int | None = None,
        returns: bool = False,
    ) -> RemoteCursor:
        """A cursor over a topic, pinned now: a program, or its text for a snapshot of rows. `held`: a table's version
        that is held for the reader. `returns`: its reader means to open another at the position of this one."""
        from gauss.stream.cursors import RemoteCursor, opening, parsed

        asked = parsed(program)
        head = opening(topic, asked, inc=inc, name=name, held=held, returns=returns)
        return self._call(lambda: RemoteCursor(self._connection(), self._options(), head))

    def _get(self, ticket: Read) -> Any:
        return self._connection().do_get(flight.Ticket(msgspec.json.encode(ticket)), self._options())

    def stage(self, stage: Stage, batches: Iterable[pa.RecordBatch]) -> int:
        """Sends one task's records for one topic; returns their number. All is sent again if the engine restarts."""
        kept = list(batches)
        return self._call(lambda: self._put(stage, kept))

    def append(self, topic: str, batches: Iterable[pa.RecordBatch]) -> int:
        """Appends records now: `data`, and `ts_ms` unless that is their arrival. Not repeated by itself, since that
        could double them."""
        self.command("health")
        try:
            return self._put(Append(topic), batches)
        except GONE as error:
            raise Unavailable("the engine went away while records were sent: some may be in the topic") from error
        except (flight.FlightError, pa.ArrowException) as error:
            raise as_gauss_error(error) from error

    def _put(self, head: Stage | Append, batches: Iterable[pa.RecordBatch]) -> int:
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
    """A child forked from a process that has connected would hang for ever inside gRPC: it is told instead."""
    global _used_by
    if _used_by not in (0, os.getpid()):
        raise ProtocolError(
            f"process {os.getpid()} was forked from one that is connected to the engine already",
            hint="connect after the fork, or spawn the process",
        )
    _used_by = os.getpid()


def client_for(endpoint: str, token: str, *, lock: str = "") -> EngineClient:
    """One client per process and engine: connecting costs more than a call."""
    key = (os.getpid(), endpoint, token)
    if key not in _clients:
        _clients[key] = EngineClient(endpoint, token, lock=lock)
    return _clients[key]


def hold_run_lock(path: str) -> None:
    """Takes the run's lock shared for the life of this process: the next run waits until all of this one are gone."""
    key = (os.getpid(), path)
    if not path or key in _locks:
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # an executor on another machine: its run lock is its own host's affair
    fcntl.flock(fd, fcntl.LOCK_SH)
    _locks[key] = fd


def as_gauss_error(error: Exception) -> GaussError:
    """The error that the engine raised, as its own class again."""
    text = str(error)
    if (begin := text.find('{"code"')) >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(text, begin)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return from_dict(found)
    if isinstance(error, flight.FlightUnauthenticatedError):
        return ConfigError("the engine refused the token", hint="the run has changed: read run/flight.json again")
    return GaussError(text.split(". gRPC client debug context", maxsplit=1)[0])
