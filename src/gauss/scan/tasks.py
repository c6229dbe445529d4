"""Reader task: slots, the calls slot / scan / next / read, and resource counters. Every read goes through one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gauss.contracts.cursor import Code, Mode, Program, Seq, Step
from gauss.model.errors import GaussError
from gauss.scan.codes import code_of, error_of
from gauss.scan.executor import Executor
from gauss.scan.outputs import Item
from gauss.scan.resources import OpKind, Resources
from gauss.scan.sources import SourceId, SourceTask

SLOTS = 1 << 16
_OK = Code.OK  # looking up an enum member is slow, and every step does it


class CursorHandle(NamedTuple):
    """Immutable description of the cursor in a slot."""

    source_task_id: SourceId
    pinned_version: int
    mode: Mode
    cursor_id: int
    route_hint: str


class _Held(NamedTuple):
    handle: CursorHandle
    source: SourceTask
    executor: Executor  # read here only for its fuel, sizes and position


class ReaderTask:
    """Reads through cursors in numbered slots until DONE. Used by one thread; only `done` may be called by another."""

    def __init__(
        self,
        find: Callable[[SourceId], SourceTask],
        *,
        name: str = "",
        lease_seconds: float | None = None,
        allow: Callable[[OpKind], bool] | None = None,
    ) -> None:
        """`find` returns a source task or raises. `allow` is called before every call; if it returns False, the call is
        REJECTED. Without a lease the task lives until its owner ends it."""
        self.name = name
        self.resources = Resources()
        self.fault: Exception | None = None
        """The error of the last failed scan."""
        self.ended: Code | None = None
        """The code given to `done`. `None` while the task lives."""
        self._find = find
        self._allow = allow
        self._slots: dict[int, _Held | None] = {}
        self._free = 0  # all slots below are in use
        self._lease = None if lease_seconds is None else int(lease_seconds * 1e9)
        self._began = self._touched = time.perf_counter_ns()
        self._busy = False  # inside a call: a long call must not let the lease expire

    # --- the ABI ---

    def slot(self, number: int | None = None) -> tuple[Code, int]:
        """Allocates the given slot, or the lowest free one."""
        if self.ended is not None:
            return Code.PANIC, 0
        self.resources.init = 1
        self.resources.slot += 1
        if self._refused(OpKind.SLOT):
            return self._answer(Code.REJECTED), 0
        if number is None:
            if len(self._slots) == SLOTS:
                return self._answer(Code.REJECTED), 0
            number = self._free
            while number in self._slots:
                number += 1
            self._free = number + 1
        elif not _is_slot(number) or number in self._slots:
            return self._answer(Code.INVALID), 0
        self._slots[number] = None
        return self._answer(Code.OK), number

    def scan(self, slot: int, task_id: SourceId, program: bytes | Program) -> Code:
        """Opens a cursor in an allocated, empty slot."""
        if self.ended is not None:
            return Code.PANIC
        began = time.perf_counter_ns()
        self.resources.init = 1
        self.resources.scan += 1
        self.fault = None
        self._busy = True
        try:
            code = self._scan(slot, task_id, program)
        finally:
            self._busy = False
        if self.ended is not None:  # ended by another thread meanwhile: close the new cursor too
            self._empty(slot)
            return Code.PANIC
        self.resources.exec += time.perf_counter_ns() - began
        return self._answer(code)

    def _scan(self, slot: int, task_id: SourceId, program: bytes | Program) -> Code:
        if self._slots.get(slot, False) is not None:  # not allocated, or occupied
            return Code.INVALID
        if self._refused(OpKind.SCAN):
            return Code.REJECTED
        try:
            source = self._find(task_id)
        except GaussError as fault:
            self.fault = fault
            return code_of(fault)
        if isinstance(program, bytes):
            self.resources.sent += len(program)
        opened = source.open(program)
        if opened.code is not Code.OK:
            self.fault = opened.fault
            return opened.code
        executor = source.executor(opened.cursor_id)
        handle = CursorHandle(
            source.id, executor.pinned_version, executor.program.mode, opened.cursor_id, route_hint="local"
        )
        self.resources.fuel += 1  # opening costs one unit
        self._slots[slot] = _Held(handle, source, executor)
        source.joined(self)
        if source.capabilities.max_pinned_bytes is not None:
            self.limit_pins(source)
        return Code.OK

    def next(self, slot: int, step: bytes | Step) -> Code:
        """Prepares the next batch of the slot's cursor."""
        if self.ended is not None:
            return Code.PANIC
        resources, began = self.resources, time.perf_counter_ns()
        resources.init = 1  # the first call counts as INIT
        resources.next += 1
        self._busy = True
        try:
            code = self._next(slot, step)
        finally:
            self._touched = now = time.perf_counter_ns()
            self._busy = False
        resources.exec += now - began
        if code is not _OK:
            resources.errs += 1
        return code

    def _next(self, slot: int, step: bytes | Step) -> Code:
        held = self._slots.get(slot)
        if held is None:
            return Code.INVALID
        if self._refused(OpKind.NEXT):
            return Code.REJECTED
        handle, source, executor = held
        before = executor.fuel
        if isinstance(step, bytes):
            self.resources.sent += len(step)
        code = source.next(handle.cursor_id, step)
        self.resources.fuel += executor.fuel - before + 1  # every step costs one unit
        return code

    def read(self, slot: int) -> tuple[Code, bytes]:
        """The prepared batch as a blob."""
        code, blob = self._read(slot, SourceTask.read_blob)
        return code, blob if isinstance(blob, bytes) else b""

    def take(self, slot: int) -> tuple[Code, Item | None]:
        """The prepared batch as an object, for readers in the same process. Does not copy."""
        return self._read(slot, SourceTask.read)

    def _read(self, slot: int, read: Callable[[SourceTask, int], tuple[Code, Item | None]]) -> tuple[Code, Item | None]:
        if self.ended is not None:
            return Code.PANIC, None
        resources, began = self.resources, time.perf_counter_ns()
        resources.init = 1
        resources.read += 1
        held = self._slots.get(slot)
        item: Item | None = None
        if held is None:
            code = Code.INVALID
        elif self._refused(OpKind.READ):
            code = Code.REJECTED
        else:
            code, item = read(held.source, held.handle.cursor_id)
        if code is _OK and held is not None:
            size = len(item) if isinstance(item, bytes) else held.executor.size
            resources.recv += size
            resources.peak = max(resources.peak, size)
        else:
            resources.errs += 1
            item = None
        self._touched = now = time.perf_counter_ns()
        resources.exec += now - began
        return code, item

    def done(self, code: Code = Code.OK) -> Code:
        """Ends the task with a code: closes all cursors, invalidates all slots and freezes the counters."""
        if self.ended is not None:
            return Code.PANIC
        self.ended = code
        self.resources.done += 1
        self.resources.wall = time.perf_counter_ns() - self._began
        for slot in list(self._slots):
            self._empty(slot)
        return Code.OK

    # --- around the ABI ---

    def release(self, slot: int) -> None:
        """Frees a slot and closes its cursor."""
        if slot in self._slots:
            self._empty(slot)
            self._free = min(self._free, slot)

    def handle(self, slot: int) -> CursorHandle | None:
        """The cursor handle in a slot, or `None`."""
        held = self._slots.get(slot)
        return None if held is None else held.handle

    def used(self) -> tuple[int, ...]:
        """The sixteen counters, with `wall` updated."""
        if self.ended is None:
            self.resources.wall = time.perf_counter_ns() - self._began
        return self.resources.values()

    def emitted(self, size: int) -> None:
        """Counts bytes that the scanner has written as its own output."""
        if self.ended is None:
            self.resources.emit += 1
            self.resources.sent += size

    def pinned_bytes(self) -> int:
        """Bytes of old versions that the task's cursors keep in memory."""
        held = [each for each in list(self._slots.values()) if each is not None]
        return sum(_together(each.executor.pinned_parts() for each in held).values())

    def limit_pins(self, source: SourceTask) -> int:
        """Ends the oldest cursors on a source until the rest is within `max_pinned_bytes`. Returns how many."""
        most = source.capabilities.max_pinned_bytes
        if most is None:
            return 0
        held = [each for each in list(self._slots.values()) if each is not None and each.source is source]
        held.sort(key=lambda each: each.handle.cursor_id)
        pinned = [(each.executor, parts) for each in held if (parts := each.executor.pinned_parts())]
        ended = 0
        while pinned and sum(_together(parts for _, parts in pinned).values()) > most:
            pinned.pop(0)[0].reject()
            ended += 1
        self.resources.shed += ended
        return ended

    def renew(self) -> None:
        """Renews the lease without a call."""
        if self.ended is None:
            self.resources.noop += 1
        self._touched = time.perf_counter_ns()

    def lapsed(self) -> bool:
        """Whether the lease has expired."""
        if self._lease is None or self._busy:
            return False
        return time.perf_counter_ns() - self._touched > self._lease

    def _empty(self, slot: int) -> None:
        held = self._slots.pop(slot, None)
        if held is not None:
            held.source.close(held.handle.cursor_id)
            if not any(other is not None and other.source is held.source for other in list(self._slots.values())):
                held.source.left(self)

    def _refused(self, op: OpKind) -> bool:
        if self._allow is None or self._allow(op):
            return False
        self.resources.shed += 1
        return True

    def _answer(self, code: Code) -> Code:
        self._touched = time.perf_counter_ns()
        if code is not Code.OK:
            self.resources.errs += 1
        return code


def _together(pinned: Iterable[dict[int, int]]) -> dict[int, int]:
    """Merges the parts pinned by several cursors; shared parts count once."""
    parts: dict[int, int] = {}
    for each in pinned:
        parts |= each
    return parts


def _is_slot(number: int) -> bool:
    return type(number) is int and 0 <= number < SLOTS


class TaskCursor:
    """A reader task with one cursor, for code in the same process. A live cursor that falls behind the oldest retained
    record of a log reopens there and counts the missed records."""

    def __init__(self, source: SourceTask, program: Program, on_missed: Callable[[int], None] = lambda _: None) -> None:
        self.task = ReaderTask(lambda _: source)
        self.missed = 0
        self._on_missed = on_missed
        self._source = source
        self._program = program
        _, self._slot = self.task.slot()
        code = self._scan(program)
        if code is Code.REJECTED and isinstance(program.view, Seq) and self._is_behind(program.view.start):
            code = self._reopen(program.view.start)
        if code is not Code.OK:
            fault, _ = self.task.fault, self.task.done(code)
            raise fault or error_of(code, f'topic "{source.id.topic}" can\'t be read')

    def _scan(self, program: Program) -> Code:
        code = self.task.scan(self._slot, self._source.id, program)
        if code is Code.OK:
            handle = self.task.handle(self._slot)
            assert handle is not None
            self.pinned_version = handle.pinned_version
            self._executor = self._source.executor(handle.cursor_id)
        return code

    def _is_behind(self, position: int | None) -> bool:
        provider = self._source.provider
        return (
            position is not None
            and self._program.mode is Mode.LIVE
            and isinstance(self._program.view, Seq)
            and "offset" in provider.candidates().names
            and position < provider.floor()
        )

    def _reopen(self, position: int | None) -> Code:
        """Reopens at the floor; repeats if the floor moves meanwhile."""
        assert position is not None
        code = Code.REJECTED
        while code is Code.REJECTED and (floor := self._source.provider.floor()) > position:
            self.missed += floor - position
            self._on_missed(floor - position)
            position = floor
            self.task.release(self._slot)
            _, self._slot = self.task.slot()
            code = self._scan(dataclasses.replace(self._program, view=Seq(floor)))
        return code

    @property
    def position(self) -> int:
        return self._executor.position

    @property
    def hold(self) -> int:
        return self._executor.hold

    @property
    def fault(self) -> GaussError | None:
        found = self._executor.fault
        return found if isinstance(found, GaussError) else None

    def next(self, step: Step) -> Code:
        while True:
            code = self.task.next(self._slot, step)
            if code is _OK or code is not Code.REJECTED or not self._is_behind(self._executor.position):
                return code
            code = self._reopen(self._executor.position)
            if code is not Code.OK:
                return code

    def read(self) -> tuple[Code, Item | None]:
        return self.task.take(self._slot)

    def emitted(self, size: int) -> None:
        self.task.emitted(size)

    def close(self) -> None:
        """Ends the task. Idempotent."""
        self.task.done()

    def __del__(self) -> None:
        """Releases the pinned version if the owner never called `close`."""
        if self.task.ended is None:
            self.task.done()
