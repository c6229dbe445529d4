"""The stages of a standing task: small ones are sent within the publish, large ones before it."""

from __future__ import annotations

import uuid

import pyarrow as pa

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.task_messages import InlineStage, Passed, Stage

INLINE_BYTES = 256 << 10
"""Maximum size of a stage that is sent within the publish."""
MOST_INLINE_BYTES = 4 << 20
"""Maximum size of all stages within a publish, because a call has a size limit."""


class Outbox:
    """The stages of one task's epoch."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._claim = ("", 0)
        self._bytes = 0
        self.inline: list[InlineStage] = []

    def of(self, processor: str, generation: int) -> Outbox:
        """Assigns the following stages to this processor."""
        self._claim = processor, generation
        return self

    def put(
        self,
        topic: str,
        batches: list[pa.RecordBatch],
        *,
        name: str = "",
        parent: str = "",
        passed: Passed | None = None,
        whole: bool = False,
    ) -> str:
        """Stages records for the publish; returns the name of the stage. `whole`: the stage consists of all records of
        `parent`, or of all that `passed` names."""
        processor, generation = self._claim
        made = name or uuid.uuid4().hex
        head = Stage(made, processor, generation, topic, parent=parent, passed=passed, whole=whole)
        size = sum(batch.nbytes for batch in batches)
        if size > INLINE_BYTES or self._bytes + size > MOST_INLINE_BYTES:
            self._flush(parent)
            self._client.stage(head, batches)
        else:
            self._bytes += size
            self.inline.append(InlineStage(head, _encoded(batches)))
        return head.stage

    def _flush(self, parent: str) -> None:
        """Sends the parent of a stage that is sent now, because the stage references its rows."""
        for inline in [each for each in self.inline if each.head.stage == parent]:
            self.inline.remove(inline)
            with pa.ipc.open_stream(inline.data) as reader:
                self._client.stage(inline.head, list(reader))


def _encoded(batches: list[pa.RecordBatch]) -> bytes:
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
