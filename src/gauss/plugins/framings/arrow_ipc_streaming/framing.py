"""An Arrow IPC stream: each record is a stream of its own, of schema, dictionaries and one batch."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from gauss.plugins.framings.arrow_ipc_streaming.messages import (
    BATCH,
    DICTIONARY,
    END_OF_STREAM,
    KIND_NAMES,
    SCHEMA,
    Message,
    message,
)
from gauss.plugins.framings.buffered_splitter import bad_frame
from gauss.plugins.framings.containers import (
    MOST_HEADER_BYTES,
    ContainerFraming,
    ContainerPart,
    ContainerSplitter,
    Incomplete,
    Malformed,
    TooLong,
)

ANY_SIZE = 2**31 - 1

Dictionaries = dict[int, list[bytes]]
"""By id: the message that set it and the deltas since, in order."""


class ArrowIpcStreamingFraming(ContainerFraming):
    key: tuple[object, ...] = ("arrow_ipc_streaming",)

    def splitter(self, max_record_bytes: int) -> ArrowIpcSplitter:
        return ArrowIpcSplitter(max_record_bytes)

    def joiner(self) -> ArrowIpcJoiner:
        return ArrowIpcJoiner()

    def _parse(self, record: bytes) -> object:
        return split_record(record)


class Parts(NamedTuple):
    """A record taken apart."""

    schema: bytes
    dictionaries: Dictionaries
    batch: bytes


def note_dictionary(dictionaries: Dictionaries, found: Message, data: bytes) -> None:
    """A delta adds to its dictionary, any other message replaces it."""
    if found.is_delta:
        dictionaries.setdefault(found.dictionary, []).append(data)
    else:
        dictionaries[found.dictionary] = [data]


def split_record(record: bytes) -> Parts:
    """The parts of a record of schema, dictionaries and one batch; raises FrameError for anything else."""
    view = memoryview(record)
    schema = batch = b""
    dictionaries: Dictionaries = {}
    position = 0
    while position < len(view):
        try:
            found = message(view[position:], ANY_SIZE)
        except (Incomplete, Malformed, TooLong) as error:
            raise bad_frame(f"no Arrow stream: {error}", record, 0) from error
        data = bytes(view[position : position + found.size])
        position += found.size
        if found.kind == SCHEMA and position == found.size:
            schema = data
        elif found.kind == DICTIONARY and schema and not batch:
            note_dictionary(dictionaries, found, data)
        elif found.kind == BATCH and schema and not batch:
            batch = data
        elif found.kind or not batch or position != len(view):
            raise bad_frame("expected an Arrow stream of schema, dictionaries and one batch", record, 0)
    if not batch:
        raise bad_frame("expected an Arrow stream with a batch", record, 0)
    return Parts(schema, dictionaries, batch)


class ArrowIpcSplitter(ContainerSplitter):
    def __init__(self, max_record_bytes: int) -> None:
        super().__init__(max_record_bytes)
        self._schema = b""
        self._dictionaries: Dictionaries = {}
        self._dictionary_bytes = 0

    def held(self) -> int:
        return super().held() + len(self._schema) + self._dictionary_bytes

    def _part(self, data: memoryview) -> ContainerPart:
        found = message(data, self._limit)
        return ContainerPart(found.size, self._take(found, data[: found.size]))

    def _take(self, found: Message, data: memoryview) -> bytes:
        """Notes what a message says of the stream; gives a record for a batch."""
        if found.kind in (SCHEMA, 0):
            if found.kind == SCHEMA and found.size > MOST_HEADER_BYTES:
                raise TooLong(found.size)
            self._schema = bytes(data) if found.kind == SCHEMA else b""
            self._dictionaries, self._dictionary_bytes = {}, 0
            return b""
        if not self._schema:
            raise Malformed(f"an Arrow {KIND_NAMES[found.kind]} before any schema")
        if found.kind == DICTIONARY:
            replaced = [] if found.is_delta else self._dictionaries.get(found.dictionary, [])
            self._dictionary_bytes += found.size - sum(map(len, replaced))
            note_dictionary(self._dictionaries, found, bytes(data))
            if len(self._schema) + self._dictionary_bytes > self._limit:
                raise TooLong(len(self._schema) + self._dictionary_bytes)
            return b""
        dictionaries = [part for parts in self._dictionaries.values() for part in parts]
        record = b"".join([self._schema, *dictionaries, data, END_OF_STREAM])
        if len(record) > self._limit:
            raise TooLong(len(record))
        return record


class ArrowIpcJoiner:
    """Sends a schema and dictionaries only when they differ from the last."""

    def __init__(self) -> None:
        self._schema = b""
        self._dictionaries: Dictionaries = {}

    def join(self, data: pa.BinaryArray) -> bytes:
        out: list[bytes] = []
        for record in data.to_pylist():
            parts = split_record(record)
            if parts.schema != self._schema:
                out += [END_OF_STREAM, parts.schema] if self._schema else [parts.schema]
                self._schema, self._dictionaries = parts.schema, {}
            for number, messages in parts.dictionaries.items():
                sent = self._dictionaries.get(number, [])
                # What was sent may have grown by deltas; anything else replaces it.
                grown = sent == messages[: len(sent)]
                out += messages[len(sent) :] if grown else messages
                self._dictionaries[number] = messages
            out.append(parts.batch)
        return b"".join(out)
