"""Serves a remote cursor: one Flight exchange is one reader task with one slot, on a lease."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from gauss.clients.engine.cursor_messages import (
    LEASE_S,
    MOST_WAIT_MS,
    Ask,
    Open,
    Opened,
    State,
)
from gauss.contracts.cursor import Code, Program
from gauss.model.errors import ConfigError, GaussError
from gauss.scan.codes import error_of
from gauss.scan.engine import ScanEngine
from gauss.scan.outputs import encode_item
from gauss.scan.sources import SourceId
from gauss.scan.tasks import ReaderTask
from gauss.stream.engine.topics.table_topic import TableTopic

if TYPE_CHECKING:
    from gauss.scan.executor import Executor
    from gauss.stream.engine.topics.topic import Scannable

LOOK_S = 0.25
MOST_ASK_BYTES = 1 << 20
SLOT = 0


def serve(
    topic: Scannable, scans: ScanEngine, head: Open, reader: Any, writer: Any, *, gone: Callable[[], bool]
) -> None:
    """Serves the calls of a client's cursor until one side ends it; nothing stays pinned afterwards."""
    inc = topic.inc if head.inc is None else head.inc
    if head.returns and isinstance(topic, TableTopic):
        topic.unpin(topic.hold())  # the place stays in its tail
    with _task(scans, head.name) as (number, task):
        task.slot(SLOT)
        code = task.scan(SLOT, SourceId(head.topic, inc, topic.source.id.rows), _program(head))
        handle = task.handle(SLOT)
        if handle is None:
            raise task.fault or error_of(code, f'topic "{head.topic}" can\'t be read')
        cursor = _Cursor(topic, task, topic.source.executor(handle.cursor_id), writer, gone)
        opened = Opened(number, inc, handle.pinned_version, cursor.executor.position)
        writer.write_metadata(msgspec.json.encode(opened))
        while not gone():
            try:
                asked = reader.read_chunk()
            except StopIteration:
                return
            except pa.ArrowException:  # the client has disconnected
                return
            metadata = asked.app_metadata
            if metadata is None or not 0 < metadata.size <= MOST_ASK_BYTES:
                raise ConfigError(f"expected metadata of 1 to {MOST_ASK_BYTES} bytes, found none or more")
            cursor.answer(metadata.to_pybytes())


def _program(head: Open) -> bytes | Program:
    """The client's program; a retained version can be set only by the engine."""
    if head.held is None:
        return head.program
    from gauss.scan.program.blob import decode_program  # imports the grammar

    return dataclasses.replace(decode_program(head.program), held=head.held)


@contextmanager
def _task(scans: ScanEngine, name: str) -> Iterator[tuple[int, ReaderTask]]:
    number, task = scans.reader(name=name, lease_seconds=LEASE_S)
    try:
        yield number, task
    finally:
        scans.done(number)


class _Cursor:
    """The engine's side of one cursor."""

    def __init__(
        self, topic: Scannable, task: ReaderTask, executor: Executor, writer: Any, gone: Callable[[], bool]
    ) -> None:
        self.executor = executor
        self._topic, self._inc = topic, topic.inc
        self._task = task
        self._writer = writer
        self._gone = gone
        self._schema: pa.Schema | None = None

    def answer(self, asked: bytes) -> None:
        """Answers one call."""
        kind, argument = asked[:1], asked[1:]
        if kind == Ask.STEP.value:
            self._step(argument)
        elif kind == Ask.NEXT.value:
            self._say(self._task.next(SLOT, argument))
        elif kind == Ask.READ.value:
            code, blob = self._task.read(SLOT)
            self._say(code, blob)
        elif kind == Ask.WAIT.value:
            self._wait(argument)
        else:
            known = ", ".join(f"{ask.name.lower()} ({ask.value.decode()})" for ask in Ask)
            raise ConfigError(f"unknown call {kind!r} of a cursor", hint=f"calls: {known}")

    def _step(self, step: bytes) -> None:
        code = self._task.next(SLOT, step)
        if isinstance(self.executor.fault, GaussError):
            raise self.executor.fault  # an external table gives the reason
        item = None
        if code is Code.OK:
            code, item = self._task.take(SLOT)
        if isinstance(item, pa.RecordBatch):
            if self._schema is None:
                self._writer.begin(item.schema)
                self._schema = item.schema
            self._writer.write_with_metadata(item, self._state(code).encode())
        else:
            self._say(code, b"" if item is None else encode_item(self.executor.program.output, item))

    def _wait(self, argument: bytes) -> None:
        """Checks from time to time whether the client still waits: a killed client sends nothing."""
        if len(argument) != 4:
            raise ConfigError("a wait takes four bytes of milliseconds")
        deadline = time.monotonic() + min(int.from_bytes(argument, "little"), MOST_WAIT_MS) / 1000
        position = self.executor.position
        code = Code.INVALID
        while code is Code.INVALID and not self._gone():
            self._task.renew()  # a waiting client is alive
            left = deadline - time.monotonic()
            is_anew = self._topic.inc != self._inc  # the next step says so
            if self._task.ended is not None:
                code = Code.PANIC
            elif is_anew or self._topic.wait(position, min(max(left, 0.0), LOOK_S)) > position:
                code = Code.OK
            elif left <= 0:
                break
        self._say(code)

    def _state(self, code: Code) -> State:
        return State(code, self.executor.position, self.executor.hold)

    def _say(self, code: Code, blob: bytes = b"") -> None:
        self._writer.write_metadata(self._state(code).encode(blob))
