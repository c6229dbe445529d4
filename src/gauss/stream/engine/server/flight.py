"""The engine's Arrow Flight server: actions, reads and stages, for holders of the token."""

from __future__ import annotations

import functools
import hmac
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyarrow import flight

from gauss.clients.engine.cursor_messages import Open, Read
from gauss.clients.engine.protocol import MAX_ACTION_BYTES, Action
from gauss.clients.engine.task_messages import Append, Feed, Stage
from gauss.contracts.chunk import Chunk
from gauss.contracts.network import Networks, is_loopback
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError, GaussError
from gauss.model.names import is_internal
from gauss.stream.engine.server.cursor_exchange import serve
from gauss.stream.engine.server.range_reads import read_range

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine
    from gauss.stream.engine.topics.topic import Topic

log = logging.getLogger(__name__)
_actions: msgspec.json.Decoder[Action] = msgspec.json.Decoder(Action)
_tickets: msgspec.json.Decoder[Read] = msgspec.json.Decoder(Read)
_heads: msgspec.json.Decoder[Stage | Append | Feed] = msgspec.json.Decoder(Stage | Append | Feed)

_cursors: msgspec.json.Decoder[Open] = msgspec.json.Decoder(Open)

F = TypeVar("F", bound=Callable[..., Any])


class Token(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects every call without the run's token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._expected = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:  # noqa: ARG002
        given = next(iter(headers.get("authorization", [])), "")
        if not hmac.compare_digest(given.encode(errors="replace"), self._expected):
            raise flight.FlightUnauthenticatedError("wrong or missing token")


def error_shape(error: Exception) -> bytes:
    """Any error in the shape of `model.errors`."""
    if isinstance(error, GaussError):
        return msgspec.json.encode(error.to_dict())
    if isinstance(error, msgspec.MsgspecError):
        return msgspec.json.encode(ConfigError(f"the call can't be decoded: {error}").to_dict())
    log.exception("a call failed", exc_info=error)
    hint = "the trace is in logs/engine.log"
    return msgspec.json.encode(GaussError(f"{type(error).__name__}: {error}", hint=hint).to_dict())


def answers_errors(method: F) -> F:
    """Sends errors as JSON in the message, so that the client raises the same class."""

    @functools.wraps(method)
    def wrapped(self: FlightServer, context: Any, *args: Any) -> Any:
        try:
            self.admit(context.peer())
            return method(self, context, *args)
        except flight.FlightError:
            raise
        except Exception as error:
            raise flight.FlightServerError(error_shape(error).decode()) from None

    return wrapped  # type: ignore[return-value]


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Listens as soon as it is constructed; `shutdown` ends it."""

    def __init__(self, engine: Engine, endpoint: str, token: str) -> None:
        super().__init__(endpoint, middleware={"token": Token(token)})
        self._engine = engine
        self._host = engine.pipeline.engine.host
        self._networks = Networks(engine.pipeline.engine.allow)

    def admit(self, peer: str) -> None:
        """Raises unless a peer, such as `ipv4:10.1.2.3:4567`, is on this machine or in the allow list."""
        host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
        if not (is_loopback(host) or host == self._host or self._networks.allow(host)):
            raise flight.FlightUnauthorizedError(f"{host} is not in engine.allow")

    @answers_errors
    def do_action(self, context: Any, action: Any) -> list[bytes]:  # noqa: ARG002
        if action.body.size > MAX_ACTION_BYTES:
            raise ConfigError(f"expected at most {MAX_ACTION_BYTES} bytes in a call, found {action.body.size}")
        reply = self._engine.act(_actions.decode(memoryview(action.body)))
        return [msgspec.json.encode(reply)]

    @answers_errors
    def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002
        read = _tickets.decode(ticket.ticket)
        topic = self._engine.topic(read.topic)
        if read.processor:
            self._engine.publisher.check_generation(read.processor, read.generation)
        batches, schema = read_range(topic, self._engine.sources, read), RECORD_SCHEMA
        if read.program:  # its columns are known from its first batch
            first = next(batches, None)
            if first is not None:
                batches, schema = itertools.chain([first], batches), first.schema
        return flight.GeneratorStream(schema, _with_error_shape(batches))

    @answers_errors
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        command = descriptor.command
        if command is None or len(command) > MAX_ACTION_BYTES:
            raise ConfigError(f"expected a command of at most {MAX_ACTION_BYTES} bytes as descriptor")
        head = _cursors.decode(command)
        topic = self._engine.topic(head.topic).scannable(rows=head.rows)
        serve(topic, self._engine.scans, head, reader, writer, gone=lambda: self._gone(context))

    def _gone(self, context: Any) -> bool:
        return bool(self._engine.stopping.is_set() or context.is_cancelled())

    @answers_errors
    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002
        head = _heads.decode(descriptor.command)
        batches = (chunk.data for chunk in reader)
        if isinstance(head, Stage):
            self._engine.publisher.check_generation(head.processor, head.generation)
            rows = self._engine.stages.put(head, batches)
        elif isinstance(head, Feed):
            self._check_writable(head.topic)
            rows = self._engine.feeds.commit(head, batches, self._engine.stopping)
        else:
            rows = self._append(head.topic, batches)
        writer.write(msgspec.json.encode({"rows": rows}))

    def _check_writable(self, name: str) -> Topic:
        topic = self._engine.topic(name)
        if is_internal(name):
            raise ConfigError(f'topic "{name}" is the engine\'s own', hint="append to a topic of the config")
        return topic

    def _append(self, name: str, batches: Iterator[pa.RecordBatch]) -> int:
        topic = self._check_writable(name)
        rows = 0
        for batch in batches:
            data = batch.column("data").cast(pa.binary())
            given = batch.schema.get_field_index("ts_ms")
            ts_ms = self._engine.clock() if given < 0 else batch.column(given).to_numpy()
            chunk = Chunk(data, len(data), ts_ms)
            rows += topic.append(chunk, self._engine.stopping).accepted
        return rows


def _with_error_shape(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except GeneratorExit:
        raise
    except Exception as error:
        raise flight.FlightServerError(error_shape(error).decode()) from None
