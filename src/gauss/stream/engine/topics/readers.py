"""The registered offset readers of a topic: names, positions and missed records."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from gauss.clients.engine.positions import At
from gauss.model.errors import ConfigError, NotFound


class ReaderPosition(NamedTuple):
    """The last reported position of a reader."""

    inc: int
    offset: int


class OffsetReader:
    """A registered offset reader; a blocking topic keeps the records that it has not read."""

    def __init__(self, name: str, position: int, keep: bool, moved: Callable[[OffsetReader], None]) -> None:
        self.name = name
        self.position = position
        self.keep = keep
        self.connected = True
        self.peer = ""
        """The client's address, for messages."""
        self.missed_records = 0
        self.lost_on_restart = 0
        self.moved_at = time.monotonic()
        self._moved = moved
        self._seek_to: int | None = None
        self._seeking = threading.Lock()
        self.close_hook: Callable[[OffsetReader], None] = lambda _: None

    def move(self, offset: int) -> None:
        """Moves the reader to `offset`; wakes writers that wait for space. Does nothing between a seek and `take_seek`:
        its owner, perhaps a client that leaves, does not know of the seek yet."""
        with self._seeking:
            if self._seek_to is not None:
                return
            self.position = offset
        self.moved_at = time.monotonic()
        self._moved(self)

    def seek(self, offset: int) -> None:
        """Moves the reader to another offset, which its owner gets by `take_seek`."""
        with self._seeking:
            self._seek_to = self.position = offset
        self.moved_at = time.monotonic()
        self._moved(self)

    def take_seek(self) -> int | None:
        """The offset to which an operator has moved this reader since the last call."""
        if self._seek_to is None:
            return None
        with self._seeking:
            offset, self._seek_to = self._seek_to, None
        return offset

    def missed(self, count: int) -> None:
        """Counts records that were overwritten before this reader read them."""
        self.missed_records += count

    def lost(self, count: int) -> None:
        """Counts records that were lost with the engine's memory before this reader read them."""
        self.lost_on_restart += count

    def close(self) -> None:
        """Ends the connection. A kept reader keeps its position."""
        self.connected = False
        self.close_hook(self)

    def stats(self, end: int, holds: bool) -> dict[str, object]:
        return {
            "name": self.name,
            "position": self.position,
            "lag": max(end - self.position, 0),
            "missed": self.missed_records,
            "lost_on_restart": self.lost_on_restart,
            "holds": holds,
            "kept": self.keep,
            "connected": self.connected,
            "idle_seconds": round(time.monotonic() - self.moved_at, 3),
            "peer": self.peer,
        }


class Readers:
    """The readers of one topic. Changes are rare and locked; the slowest is needed at every append."""

    def __init__(self, kept: dict[str, ReaderPosition], moved: Callable[[OffsetReader], None]) -> None:
        self._lock = threading.Lock()
        self._moved = moved
        self._by_name: dict[str, OffsetReader] = {}
        self._all: tuple[OffsetReader, ...] = ()
        self._stored = kept
        self._free_numbers: dict[str, list[int]] = {}  # a heap per name; its last entry is above all in use

    def all(self) -> tuple[OffsetReader, ...]:
        return self._all

    def slowest(self, name: str = "") -> OffsetReader | None:
        """The reader with the lowest position, `None` if there is none. `name`: among those registered by this name."""
        readers = self._all
        if name:
            readers = tuple(each for each in readers if each.name.partition("#")[0] == name)
        return min(readers, key=_position) if readers else None

    def restore(self, inc: int, floor: int, ended: At | None = None) -> None:
        """Registers all kept readers, so that nothing is removed before their owners are back."""
        for name, position in self._stored.items():
            reader = OffsetReader(name, position.offset, True, self._moved)
            reader.connected = False
            if position.inc != inc:
                reader.position = floor
                if ended is not None and ended.inc == position.inc:
                    reader.lost(max(ended.off - position.offset, 0))
            elif position.offset < floor:
                reader.missed(floor - position.offset)
                reader.position = floor
            self._by_name[name] = reader
        self._all = tuple(self._by_name.values())

    def register(self, name: str, start: str | int, keep: bool, floor: int, end: int) -> OffsetReader:
        """Registers a reader; a kept one continues at its position, a new one begins at `start`."""
        with self._lock:
            known = self._by_name.get(name)
            if known is not None and known.keep and keep:
                known.connected = True
                known.moved_at = time.monotonic()
                return known
            unique = self._unique(name)
            position = place(start, floor, end)
            reader = OffsetReader(unique, max(position, floor), keep, self._moved)
            reader.missed(max(floor - position, 0))
            reader.close_hook = self._closed
            self._by_name[unique] = reader
            self._all = tuple(self._by_name.values())
            return reader

    def _unique(self, name: str) -> str:
        """The name, or the name with the lowest free number: a sink may have thousands of clients."""
        if name not in self._by_name:
            return name
        free = self._free_numbers.setdefault(name, [2])
        number = heapq.heappop(free)
        if not free:
            free.append(number + 1)
        return f"{name}#{number}"

    def _forget(self, reader: OffsetReader) -> None:
        if self._by_name.pop(reader.name, None) is None:
            return
        self._all = tuple(self._by_name.values())
        name, numbered, number = reader.name.partition("#")
        if numbered and name in self._free_numbers:
            heapq.heappush(self._free_numbers[name], int(number))

    def get(self, name: str) -> OffsetReader:
        reader = self._by_name.get(name)
        if reader is None:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise NotFound(f'no reader "{name}"', hint=f"registered here: {known}")
        return reader

    def drop(self, name: str) -> OffsetReader:
        with self._lock:
            reader = self.get(name)
            self._forget(reader)
            return reader

    def _closed(self, reader: OffsetReader) -> None:
        if reader.keep:
            return
        with self._lock:
            if self._by_name.get(reader.name) is reader:
                self._forget(reader)
        self._moved(reader)


def _position(reader: OffsetReader) -> int:
    return reader.position


def place(start: str | int, floor: int, end: int) -> int:
    """The offset that `start` means now."""
    if isinstance(start, int) and not isinstance(start, bool):
        if start > end:
            raise ConfigError(f"expected an offset up to {end}, found {start}", hint='use "end" to start at the end')
        return start
    if start in ("earliest", "resume"):  # without a kept position, `resume` is the configured start
        return floor
    if start == "end":
        return end
    raise ConfigError(f'expected "earliest", "end", "resume" or an offset, found "{start}"')
