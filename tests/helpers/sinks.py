"""Inputs and clients of a sink."""

from __future__ import annotations

import socket
import time

from gauss.contracts.chunk import Chunk
from gauss.stream.engine.topics.topic import Topic
from helpers.edges import NEWLINE, Running, framing


def lines(start: int, stop: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, stop))


def append(topic: Topic, data: bytes, parameters: dict[str, object] | None = None) -> None:
    """Appends framed bytes as a source would."""
    given = dict(parameters or NEWLINE)
    built = framing(str(given.pop("framing")), given)
    frames = built.splitter(16 << 20).feed(data)
    topic.append(Chunk(frames.payload, frames.count, time.time_ns() // 1_000_000, built if built.raw else None))


def narrow(sink: Running) -> socket.socket:
    """A client with a small receive window, so that a client that does not read blocks the sink soon."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", sink.port))
    return sock
