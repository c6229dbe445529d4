"""A source task: the side of a scan beside the data. It decodes blobs, runs cursors and knows the watermark."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gauss.contracts.cursor import Code, Cursor, Mode, Output, Program, Provider, Step
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.audit import Audited
from gauss.scan.binding import bind, check, decode_program, decode_step
from gauss.scan.codes import code_of
from gauss.scan.executor import Executor, Plain, Staged
from gauss.scan.outputs import Item, encode_item

if TYPE_CHECKING:
    from gauss.scan.tasks import ReaderTask

log = logging.getLogger(__name__)
_ids = itertools.count(1)  # one row of numbers for all sources: a foreign cursor is an unknown one


class SourceId(NamedTuple):
    """A source task: a topic in one of its incarnations."""

    topic: str
    inc: int


class Opened(NamedTuple):
    """The answer to open: a cursor, or why there is none."""

    code: Code
    cursor_id: int = 0
    fault: Exception | None = None


class SourceTask:
    """Four calls (open, next, read, close) over blobs, or in process over the objects that the blobs describe."""

    def __init__(
        self,
        topic: str,
        provider: Provider,
        *,
        opener: Callable[[Program], Cursor] | None = None,
        audit: bool = False,
        native: bool = True,
    ) -> None:
        """`opener` opens candidates where the provider's own `open` leads through tasks; `audit` runs every snapshot
        twice; without `native` no provider runs a program its own way."""
        self.id = SourceId(topic, provider.inc)
        self.provider = provider
        self.capabilities = provider.capabilities
        self.readers: weakref.WeakSet[ReaderTask] = weakref.WeakSet()
        self._open = opener or provider.open
        self._audit = audit
        self._native = native
        self._cursors: dict[int, Executor] = {}
        self._lock = threading.Lock()  # opening, closing and the watermark; never a step
        self._done = self._dead = False

    # --- the four calls ---

    def open(self, program: bytes | Program) -> Opened:
        """A cursor pinned at the current version; nothing is left behind when it fails."""
        try:
            if self._dead:
                raise Rejected(f'topic "{self.id.topic}" has no incarnation {self.id.inc} any more')
            typed = program if isinstance(program, Program) else decode_program(program)
            if self._done and typed.mode is Mode.LIVE:
                raise Rejected(f'topic "{self.id.topic}" has ended', hint="read a snapshot of it")
            executor = self._execute(typed)
        except Exception as fault:
            code = code_of(fault)
            if code is Code.PANIC:
                log.exception("opening a scan of %s failed", self.id.topic)
            return Opened(code, 0, fault)
        cursor_id = next(_ids)
        with self._lock:
            self._cursors[cursor_id] = executor
        return Opened(Code.UNSET, cursor_id)

    def next(self, cursor_id: int, step: bytes | Step) -> Code:
        """Prepares the next batch."""
        executor = self._cursors.get(cursor_id)
        if executor is None:
            return Code.INVALID
        if self._dead:
            return Code.REJECTED
        try:
            typed = step if isinstance(step, Step) else decode_step(step)
        except ConfigError:
            return Code.INVALID
        try:
            return executor.next(typed)
        except Exception as error:
            return self._broke(executor, error)

    def read(self, cursor_id: int) -> tuple[Code, Item | None]:
        """The prepared batch, as it is."""
        executor = self._cursors.get(cursor_id)
        if executor is None:
            return Code.INVALID, None
        if self._dead:
            return Code.REJECTED, None
        try:
            return executor.read()
        except Exception as error:
            return self._broke(executor, error), None

    def read_blob(self, cursor_id: int) -> tuple[Code, bytes]:
        """The prepared batch, encoded as the program's output says."""
        code, item = self.read(cursor_id)
        if item is None:
            return code, b""
        return code, encode_item(self._cursors[cursor_id].program.output, item)

    def close(self, cursor_id: int) -> None:
        """Lets go what the cursor held."""
        with self._lock:
            executor = self._cursors.pop(cursor_id, None)
        if executor is not None:
            executor.close()

    # --- versions ---

    def watermark(self) -> int | None:
        """The lowest version that an open cursor needs; None: there is no cursor."""
        with self._lock:
            return min((executor.hold for executor in self._cursors.values()), default=None)

    def executor(self, cursor_id: int) -> Executor:
        return self._cursors[cursor_id]

    def open_cursors(self) -> int:
        return len(self._cursors)

    def end(self) -> None:
        """DONE: nothing will be added. Snapshots may still be read."""
        self._done = True

    def die(self) -> None:
        """The incarnation is gone, and whatever is asked of it is rejected."""
        self._dead = True

    # --- inside ---

    def _execute(self, program: Program) -> Executor:
        check(program, self.capabilities)
        stages = bind(program, self.provider) if program.stages else None
        plain = program.output in (Output.COLUMNAR, Output.SCALAR)
        asked = dataclasses.replace(program, output=Output.ROWS) if plain else program
        if asked.stages and not self._native:
            asked = dataclasses.replace(asked, stages=())
        cursor = self._open(asked)
        if self._audit and program.mode is Mode.SNAPSHOT:
            cursor = Audited(cursor, self._open(asked), asked.output)
        if stages is None:
            return Plain(cursor, program, self.capabilities)
        return Staged(cursor, program, self.capabilities, stages)

    def _broke(self, executor: Executor, error: Exception) -> Code:
        """The provider failed: this cursor ends, all others live on."""
        code = code_of(error)
        code = Code.PANIC if code is Code.INVALID else code
        if code is Code.PANIC:
            log.error("a scan of %s failed", self.id.topic, exc_info=error)
        executor.end(code)
        return code
