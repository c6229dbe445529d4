"""Source task: the data side of a scan. Decodes programs and steps, runs cursors and computes the watermark."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gauss.contracts.cursor import Agg, Code, Cursor, Mode, Narrow, Output, Program, Provider, Seq, Step
from gauss.contracts.expression import Expr, Select
from gauss.model.errors import ConfigError, Rejected
from gauss.scan.aggregate import AggCursor, row_cost
from gauss.scan.audit import Audited
from gauss.scan.binding import Binding, Formats, plugin_format
from gauss.scan.chunk_executor import Chunks
from gauss.scan.codes import code_of
from gauss.scan.executor import Executor, check_row_cost
from gauss.scan.outputs import Item, encode_item
from gauss.scan.program.declared import check_declared
from gauss.scan.program.fuel import ROW
from gauss.scan.row_executor import Plain, Staged

if TYPE_CHECKING:
    from gauss.scan.tasks import ReaderTask

KEPT_PROGRAMS = 64
KEPT_STEPS = 64
KEPT_STEP_BYTES = 64

ALL = Narrow()
_Given = TypeVar("_Given")

log = logging.getLogger(__name__)
_ids = itertools.count(1)  # shared by all sources, so that an id of another source is unknown


class SourceId(NamedTuple):
    """Identifies a source task: a topic and its incarnation."""

    topic: str
    inc: int
    rows: bool = False
    """Whether it has the newest record of each key of a log, beside the source of all its records."""


class OpenAnswer(NamedTuple):
    """Result of `open`: a cursor id, or a code and the error."""

    code: Code
    cursor_id: int = 0
    fault: Exception | None = None


class SourceTask:
    """Serves open, next, read and close, with blobs or (in process) with the decoded objects."""

    def __init__(
        self,
        topic: str,
        provider: Provider,
        *,
        audit: bool = False,
        native: bool = True,
        formats: Formats = plugin_format,
        rows: bool = False,
    ) -> None:
        """`audit` runs every snapshot twice and compares. `native=False` decodes records even if only their number is
        needed. `formats` returns a format by name."""
        missing = [name for name in ("open", "version", "floor", "candidates", "format") if not hasattr(provider, name)]
        if missing:
            raise ConfigError(f'topic "{topic}" declares views without a provider (missing: {", ".join(missing)})')
        self.id = SourceId(topic, provider.inc, rows)
        self.provider = provider
        self.capabilities = provider.capabilities
        self._readers: weakref.WeakSet[ReaderTask] = weakref.WeakSet()
        self._audit = audit
        self._native = native
        self.formats = formats
        self.default_format = ""
        """Name of the format if neither the program nor the provider has one. Empty: records are not decoded."""
        self._bound: dict[Program, Binding] = {}
        self._cursors: dict[int, Executor] = {}
        # For open, close and the watermark, never for a step. Re-entrant: garbage collection may close a cursor.
        self._lock = threading.RLock()
        self._done = self._dead = False

    def of_next(self, provider: Provider) -> SourceTask:
        """The source of the next incarnation, with the same settings."""
        topic, _, rows = self.id
        made = SourceTask(topic, provider, audit=self._audit, native=self._native, formats=self.formats, rows=rows)
        made.default_format = self.default_format
        return made

    # --- the four calls ---

    def open(self, program: bytes | Program) -> OpenAnswer:
        """Opens a cursor pinned at the current version. A failed open leaves nothing behind."""
        try:
            if self._dead:
                raise Rejected(f'topic "{self.id.topic}" no longer has incarnation {self.id.inc}')
            typed = program if isinstance(program, Program) else _decoded_program(program)
            if self._done and typed.mode is Mode.LIVE:
                raise Rejected(f'topic "{self.id.topic}" has ended', hint="read a snapshot of it")
            executor = self._execute(typed)
        except Exception as fault:
            code = code_of(fault)
            if code is Code.PANIC:
                log.exception("opening a scan of %s failed", self.id.topic)
            return OpenAnswer(code, 0, fault)
        cursor_id = next(_ids)
        with self._lock:
            self._cursors[cursor_id] = executor
        return OpenAnswer(Code.OK, cursor_id)

    def next(self, cursor_id: int, step: bytes | Step) -> Code:
        """Prepares the next batch."""
        executor = self._cursors.get(cursor_id)
        if executor is None:
            return Code.INVALID
        if self._dead:
            return Code.REJECTED
        try:
            typed = step if isinstance(step, Step) else _decoded_step(step)
        except (ConfigError, TypeError):
            executor.discard()
            return Code.INVALID
        try:
            return executor.next(typed)
        except Exception as error:
            return self._broke(executor, error)

    def read(self, cursor_id: int) -> tuple[Code, Item | None]:
        """The prepared batch as an object."""
        return self._read(cursor_id, lambda _, item: item)

    def read_blob(self, cursor_id: int) -> tuple[Code, bytes]:
        """The prepared batch as a blob, in the program's output."""
        code, blob = self._read(cursor_id, encode_item)
        return code, b"" if blob is None else blob

    def _read(self, cursor_id: int, given: Callable[[Output, Item], _Given]) -> tuple[Code, _Given | None]:
        executor = self._cursors.get(cursor_id)
        if executor is None:
            return Code.INVALID, None
        if self._dead:
            return Code.REJECTED, None
        try:
            code, item = executor.read()
            return code, None if item is None else given(executor.program.output, item)
        except Exception as error:
            return self._broke(executor, error), None

    def close(self, cursor_id: int) -> None:
        """Closes a cursor and releases its version."""
        with self._lock:
            executor = self._cursors.pop(cursor_id, None)
        if executor is not None:
            executor.close()

    # --- versions ---

    def watermark(self) -> int | None:
        """The lowest version that an open cursor needs. `None` without open cursors."""
        with self._lock:
            return min((executor.hold for executor in tuple(self._cursors.values())), default=None)

    @property
    def readers(self) -> list[ReaderTask]:
        """The reader tasks that have open cursors."""
        with self._lock:
            return list(self._readers)

    def joined(self, reader: ReaderTask) -> None:
        """Registers a reader task with an open cursor."""
        with self._lock:
            self._readers.add(reader)

    def left(self, reader: ReaderTask) -> None:
        """Removes a reader task without open cursors."""
        with self._lock:
            self._readers.discard(reader)

    def executor(self, cursor_id: int) -> Executor:
        return self._cursors[cursor_id]

    def open_cursors(self) -> int:
        return len(self._cursors)

    def end(self) -> None:
        """DONE: no records will be added. Snapshots can still be read."""
        self._done = True

    def die(self) -> None:
        """Marks the incarnation as gone. All later calls are REJECTED."""
        self._dead = True

    # --- internal ---

    def _execute(self, program: Program) -> Executor:
        agg = isinstance(program.view, Agg)
        if not program.stages and not agg and program.output is not Output.SCALAR:
            check_declared(program, self.capabilities)
            if program.format:
                self.formats(program.format)  # nothing is decoded, but an unknown name is an error
            check_row_cost(ROW, self.capabilities)
            executor = Chunks if program.output is Output.CHUNKS else Plain
            return executor(self._candidates(program), program, self.capabilities)
        binding = self._bind(program)
        if not agg:
            return Staged(self._candidates(program, _narrowed(program, binding)), program, self.capabilities, binding)
        if program.mode is Mode.LIVE:
            raise ConfigError("expected a snapshot for agg, found a live scan")
        check_row_cost(row_cost(binding), self.capabilities)
        counts = self._native and not binding.bound.fields and Output.CHUNKS in self.capabilities.outputs
        inner = Program(Seq(), output=Output.CHUNKS if counts else Output.ROWS)
        candidates = self._candidates(inner, Narrow(tuple(binding.own)))
        cursor = AggCursor(candidates, binding, program, self.capabilities)
        return Staged(cursor, program, self.capabilities, binding)

    def _bind(self, program: Program) -> Binding:
        """The checked and compiled program, from the cache if possible."""
        binding = self._bound.get(program)
        if binding is None:
            binding = Binding(program, self.provider, self.formats, self.default_format)
            if self.capabilities.jit:
                if len(self._bound) >= KEPT_PROGRAMS:
                    self._bound.clear()
                self._bound[program] = binding
        return binding

    def _candidates(self, program: Program, narrow: Narrow = ALL) -> Cursor:
        """A cursor of the provider: over chunks for offset_len, else over rows."""
        output = Output.CHUNKS if program.output is Output.CHUNKS else Output.ROWS
        asked = Program(program.view, program.mode, output, held=program.held)
        if (opened := getattr(self.provider, "open_narrow", None)) is not None:
            narrowed: Cursor = opened(asked, narrow)
            return narrowed
        cursor = self.provider.open(asked)
        if self._audit and program.mode is Mode.SNAPSHOT:
            return Audited(cursor, self.provider.open(asked), output)
        return cursor

    def _broke(self, executor: Executor, error: Exception) -> Code:
        """Ends a cursor after an error of the provider. Other cursors are not affected."""
        code = code_of(error)
        code = Code.PANIC if code is Code.INVALID else code
        if code is Code.PANIC:
            log.error("a scan of %s failed", self.id.topic, exc_info=error)
        executor.end(code)
        executor.fault = error
        return code


def _narrowed(program: Program, binding: Binding) -> Narrow:
    """What the provider may leave out: the leading selects are conditions on candidates, and if a later stage makes
    rows, only the columns that are read are needed."""
    where: list[Expr] = []
    for stage in program.stages:
        if not isinstance(stage, Select):
            return Narrow(tuple(binding.own), tuple(where))
        where.append(stage.condition)
    return Narrow(None, tuple(where))


def _decoded_program(given: bytes) -> Program:
    from gauss.scan.program import blob  # imports the grammar, which readers in process do not need

    return blob.decode_program(given)


def _decoded_step(given: bytes) -> Step:
    if not isinstance(given, bytes):
        raise TypeError(f"expected a step, found {type(given).__name__}")
    return _known_step(given) if len(given) <= KEPT_STEP_BYTES else _new_step(given)


def _new_step(given: bytes) -> Step:
    from gauss.scan.program import blob

    return blob.decode_step(given)


_known_step = functools.lru_cache(KEPT_STEPS)(_new_step)  # most readers repeat the same step
