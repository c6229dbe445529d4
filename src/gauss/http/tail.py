"""A scan as an async stream. A thread reads from the engine; when the consumer leaves, the read is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Protocol

from gauss.model.errors import GaussError

AHEAD = 2
"""Batches that are read ahead of a slow client."""
KEEP_SECONDS = 5.0
"""How often the lease of an idle cursor is renewed."""
PIECE_BYTES = 64 << 10
"""Bytes that a client must receive within a lease to keep its cursor."""


class TailStream(Protocol):
    """A scan: its batches, lease renewal, and cancellation."""

    def __iter__(self) -> Iterator[Any]: ...

    def keep(self) -> None: ...

    def cancel(self) -> None: ...


class DeliveryWatch:
    """Tracks whether the client has received data; only then is the lease of its cursor renewed."""

    def __init__(self) -> None:
        self._taken = threading.Event()

    def mark(self) -> None:
        self._taken.set()

    def again(self) -> bool:
        found = self._taken.is_set()
        self._taken.clear()
        return found


async def in_pieces(texts: AsyncGenerator[bytes, None], taken: DeliveryWatch) -> AsyncGenerator[bytes, None]:
    """Splits texts into pieces that a slow client can receive within a lease."""
    async with contextlib.aclosing(texts):  # leaving in the middle ends the read
        async for text in texts:
            for at in range(0, len(text), PIECE_BYTES):
                yield text[at : at + PIECE_BYTES]
                taken.mark()  # the next piece is requested when the socket has accepted this one


async def follow(
    stream: TailStream, encode: Callable[[Any], bytes], ahead: int = AHEAD, taken: DeliveryWatch | None = None
) -> AsyncGenerator[bytes, None]:
    """Encoded batches until the stream or its consumer ends. With `ahead` 0 nothing is read before it is requested. A
    client that receives nothing during the lease loses its cursor."""
    progress = taken or DeliveryWatch()
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | GaussError | None] = asyncio.Queue()
    room = threading.Semaphore(ahead)
    gone = threading.Event()

    def put(item: bytes | GaussError | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def asked() -> bool:
        """Waits until a batch is requested. Returns False if the consumer has left."""
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
            put(GaussError(f"{type(error).__name__}: {error}", hint="see the log in the data directory"))

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
