"""A live tail as an async stream: one thread reads the engine, the event loop hands on, and leaving ends the read."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from gauss.model.errors import GaussError

_AHEAD = 4
"""Batches read ahead of a slow client; the engine's stream waits then."""


class Stream(Protocol):
    """What the client's scan gives: batches, and a way to end a read that waits."""

    def __iter__(self) -> Iterator[Any]: ...

    def cancel(self) -> None: ...


async def follow(stream: Stream, encode: Callable[[Any], bytes]) -> AsyncIterator[bytes]:
    """Encoded batches as they come, until the stream or its consumer ends."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | GaussError | None] = asyncio.Queue(_AHEAD)
    gone = threading.Event()

    def put(item: bytes | GaussError | None) -> None:
        if not gone.is_set():
            asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()

    def read() -> None:
        try:
            for batch in stream:
                if gone.is_set():
                    return
                put(encode(batch))
            put(None)
        except GaussError as error:
            put(error)
        except (RuntimeError, concurrent.futures.CancelledError):
            pass  # the loop is closed: the server has ended

    threading.Thread(target=read, name="tail", daemon=True).start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, GaussError):
                raise item
            yield item
    finally:
        gone.set()
        while not queue.empty():  # lets a waiting put go
            queue.get_nowait()
        stream.cancel()
