"""Detects the framing of each stream from its first bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gauss.contracts.chunk import Chunk
from gauss.contracts.framing import Buffer, Frames, Framing, Joiner, Splitter
from gauss.plugins.framings.arrow_ipc_streaming.framing import ArrowIpcStreamingFraming
from gauss.plugins.framings.arrow_ipc_streaming.messages import CONTINUATION
from gauss.plugins.framings.arrow_ipc_streaming.spec import ArrowIpcStreamingConfig
from gauss.plugins.framings.auto.spec import AutoFramingConfig
from gauss.plugins.framings.avro_container.container import MAGIC
from gauss.plugins.framings.avro_container.framing import AvroContainerFraming
from gauss.plugins.framings.avro_container.spec import AvroContainerConfig
from gauss.plugins.framings.containers import NO_RECORDS, ContainerFraming
from gauss.plugins.framings.newline.framing import NewlineFraming


class AutoFraming(ContainerFraming):
    def __init__(self, config: AutoFramingConfig) -> None:
        self.text = NewlineFraming(config)
        self._binary: dict[bytes, Framing] = {
            MAGIC: AvroContainerFraming(AvroContainerConfig()),
            CONTINUATION: ArrowIpcStreamingFraming(ArrowIpcStreamingConfig()),
        }
        self.key: tuple[object, ...] = ("auto", *self.text.key)

    def detect(self, head: bytes) -> Framing | None:
        """The framing of a stream with this beginning; None if more bytes are needed."""
        for magic, framing in self._binary.items():
            if head.startswith(magic):
                return framing
        return None if any(magic.startswith(head) for magic in self._binary) else self.text

    def splitter(self, max_record_bytes: int) -> AutoSplitter:
        return AutoSplitter(self, max_record_bytes)

    def joiner(self) -> AutoJoiner:
        return AutoJoiner(self)

    def unfit(self, data: pa.BinaryArray) -> np.ndarray | None:
        found = np.zeros(len(data), bool)
        kinds = [self.detect(record) or self.text for record in data.to_pylist()]
        for framing in {id(kind): kind for kind in kinds}.values():
            places = np.flatnonzero([kind is framing for kind in kinds])
            bad = framing.unfit(data.take(pa.array(places)))
            if bad is not None:
                found[places] = bad
        return found if found.any() else None


class AutoSplitter:
    def __init__(self, framing: AutoFraming, max_record_bytes: int) -> None:
        self._auto = framing
        self._limit = max_record_bytes
        self._head = b""
        self._framing: Framing | None = None
        self._splitter: Splitter | None = None

    def feed(self, data: Buffer) -> Frames:
        if self._splitter is None:
            self._head += bytes(data)
            self._framing = self._auto.detect(self._head) if self._head else None
            if self._framing is None:
                return Frames(NO_RECORDS, 0)
            self._splitter = self._framing.splitter(self._limit)
            data, self._head = self._head, b""
        assert self._framing is not None
        frames = self._splitter.feed(data)
        if not self._framing.raw:
            return frames
        return Frames(Chunk(frames.payload, frames.count, 0, self._framing).data(), frames.count)

    def held(self) -> int:
        return len(self._head) if self._splitter is None else self._splitter.held()

    def finish(self) -> None:
        if self._splitter is None:
            self._splitter = self._auto.text.splitter(self._limit)
            self._splitter.feed(self._head)
        self._splitter.finish()


class AutoJoiner:
    """Writes the framing of its first record."""

    def __init__(self, framing: AutoFraming) -> None:
        self._auto = framing
        self._joiner: Joiner | None = None

    def join(self, data: pa.BinaryArray) -> bytes | memoryview:
        if not len(data):
            return b""
        if self._joiner is None:
            self._joiner = (self._auto.detect(data[0].as_py()) or self._auto.text).joiner()
        return self._joiner.join(data)
