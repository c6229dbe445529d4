"""Appends the records of a request body while it is received, so its length is unlimited."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Frames, FramingSpec, cut
from gauss.model.batch import RECORD_SCHEMA
from gauss.model.errors import ConfigError, FrameError
from gauss.model.units import counted
from gauss.stream.control.run import Running

MAX_RECORD_BYTES = 16 << 20


class Appending:
    """One request body. Records before an error stay in the topic; the error reports their number."""

    def __init__(self, running: Running, topic: str, framing: str, given: dict[str, Any]) -> None:
        running.command("topic", name=topic)  # an unknown topic is reported before the body is read
        spec = registry.installed(FramingSpec, framing)
        options = {key: value for key, value in given.items() if value is not None}
        if framing == "newline":
            options.setdefault("delimiter", "\n")
        try:
            self._framing = registry.build(spec, spec.validate(options))
        except ValueError as error:  # pydantic's
            raise ConfigError(
                f'framing "{framing}": {_first_fault(error)}',
                hint="see its parameters with gauss docs reference/framings",
            ) from error
        self._client = running.client()
        self._topic = topic
        self._splitter = self._framing.splitter(MAX_RECORD_BYTES)
        self._delimiter = str(options["delimiter"]).encode() if framing == "newline" else b""
        self._tail = b""
        self._accepted = self._refused = 0

    def feed(self, piece: bytes) -> None:
        if self._delimiter:
            self._tail = (self._tail + piece)[-len(self._delimiter) :]
        try:
            for frames in cut(self._splitter, piece):
                self._append(frames)
        except FrameError as error:
            raise self._located(error) from error

    def finish(self) -> dict[str, Any]:
        """The numbers of appended and of refused records. A topic refuses records if it is full or cannot store
        them."""
        try:
            if self._tail and self._tail != self._delimiter:
                for frames in cut(self._splitter, self._delimiter):  # a last line without a newline is a record too
                    self._append(frames)
            self._splitter.finish()
        except FrameError as error:
            raise self._located(error) from error
        return {"accepted": self._accepted} | ({"refused": self._refused} if self._refused else {})

    def _append(self, frames: Frames) -> None:
        if frames.count:
            chunk = Chunk(frames.payload, frames.count, 0, self._framing if self._framing.raw else None)
            batch = pa.RecordBatch.from_arrays([chunk.data()], schema=pa.schema([RECORD_SCHEMA.field("data")]))
            accepted = self._client.append(self._topic, [batch])
            self._accepted += accepted
            self._refused += frames.count - accepted

    def _located(self, error: FrameError) -> FrameError:
        if not self._accepted:
            return error
        hint = f"{counted(self._accepted, 'record')} before it were appended"
        return FrameError(error.message, reason=error.reason, bad=error.bad, hint=hint)


def _first_fault(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors())
