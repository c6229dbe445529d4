"""A scan as an async stream: one thread reads the engine, the event loop hands on, and leaving ends the read."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Protocol

from gauss.model.errors import GaussError

AHEAD = 2
"""Batches read ahead of a slow client; the engine's cursor rests then."""
KEEP_SECONDS = 5.0
"""How often a resting cursor is told that its reader is there, if it is; well within its lease."""
PIECE_BYTES = 64 << 10
"""What a client must take within a lease to keep its cursor."""


class Stream(Protocol):
    """What the client's scan gives: batches, and a way to end a read that waits."""

    def __iter__(self) -> Iterator[Any]: ...

    def keep(self) -> None: ...

    def cancel(self) -> None: ...


class Taken:
    """Whether the client has taken something since this was last asked: only then is its cursor's lease renewed."""

    def __init__(self) -> None:
        self._taken = threading.Event()

    def mark(self) -> None:
        self._taken.set()

    def again(self) -> bool:
        found = self._taken.is_set()
        self._taken.clear()
        return found


async def in_pieces(texts: AsyncGenerator[bytes, None], taken: Taken) -> AsyncGenerator[bytes, None]:
    """The same bytes in pieces that even a slow client takes within a lease."""
    async with contextlib.aclosing(texts):  # whoever leaves in the middle ends the read at once
        async for text in texts:
            for at in range(0, len(text), PIECE_BYTES):
                yield text[at : at + PIECE_BYTES]
                taken.mark()  # the next piece is asked for once the socket has taken this one


async def follow(
    stream: Stream, encode: Callable[[Any], bytes], ahead: int = AHEAD, taken: Taken | None = None
) -> AsyncGenerator[bytes, None]:
    """Encoded batches as they come, until the stream or its consumer ends. With `ahead` 0 nothing is read before it is
    asked for: what comes is new. A client that takes nothing for as long as the lease loses its cursor."""
    progress = taken or Taken()
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | GaussError | None] = asyncio.Queue()
    room = threading.Semaphore(ahead)
    gone = threading.Event()

    def put(item: bytes | GaussError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def asked() -> bool:
        """Waits until there is room for a batch; False: nobody wants one any more."""
        while not room.acquire(timeout=KEEP_SECONDS):
            if progress.again() and not gone.is_set():
                stream.keep()
        return not gone.is_set()

    def read() -> None:
        try:
            batches = iter(stream)
            while asked() and (batch := next(batches, None)) is not None:
                put(encode(batch))
            put(None)
        except GaussError as error:
            put(error)
        except Exception as error:
            put(GaussError(f"{type(error).__name__}: {error}", hint="see control.log in the data directory"))

    threading.Thread(target=read, name="tail", daemon=True).start()
    try:
        while True:
            progress.mark()
            room.release()
            item = await queue.get()
            if item is None:
                return
            if isinstance(item, GaussError):
                raise item
            yield item
    finally:
        gone.set()
        room.release()
        stream.cancel()
