"""A reader task: slots, the calls slot / scan / next / read, and what they have cost. Every read is made by one."""

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
_UNSET = Code.UNSET  # a member of an enum is dear to look up, and every step does


class CursorHandle(NamedTuple):
    """What a slot holds: where the cursor runs, and over what. It never changes."""

    source_task_id: SourceId
    pinned_version: int
    mode: Mode
    cursor_id: int
    route_hint: str


class _Held(NamedTuple):
    handle: CursorHandle
    source: SourceTask
    executor: Executor  # only its meter is looked at from here


class ReaderTask:
    """Reads by cursors in numbered slots until it is DONE. One thread calls it; `done` may come from another."""

    def __init__(
        self,
        find: Callable[[SourceId], SourceTask],
        *,
        name: str = "",
        lease_seconds: float | None = None,
        allow: Callable[[OpKind], bool] | None = None,
    ) -> None:
        """`find` gives a source task or raises; `allow` is asked before every call, and its refusal rejects the call;
        without a lease a task lives until its owner ends it."""
        self.name = name
        self.resources = Resources()
        self.fault: Exception | None = None
        """Why the last scan was refused, for messages."""
        self.ended: Code | None = None
        """The code of DONE; None: the task lives."""
        self._find = find
        self._allow = allow
        self._slots: dict[int, _Held | None] = {}
        self._free = 0  # no slot below is free
        self._lease = None if lease_seconds is None else int(lease_seconds * 1e9)
        self._began = self._touched = time.perf_counter_ns()
        self._busy = False  # a call that takes long is no reader that has gone

    # --- the ABI ---

    def slot(self, number: int | None = None) -> tuple[Code, int]:
        """Allocates a slot, the lowest free one unless a number is named."""
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
        return self._answer(Code.UNSET), number

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
        if self.ended is not None:  # it was ended meanwhile: what was opened since is closed too
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
        if opened.code is not Code.UNSET:
            self.fault = opened.fault
            return opened.code
        executor = source.executor(opened.cursor_id)
        handle = CursorHandle(
            source.id, executor.pinned_version, executor.program.mode, opened.cursor_id, route_hint="local"
        )
        self.resources.fuel += 1  # opening is work too
        self._slots[slot] = _Held(handle, source, executor)
        source.joined(self)
        if source.capabilities.max_pinned_bytes is not None:
            self.limit_pins(source)
        return Code.UNSET

    def next(self, slot: int, step: bytes | Step) -> Code:
        """Prepares the next batch of the slot's cursor."""
        if self.ended is not None:
            return Code.PANIC
        resources, began = self.resources, time.perf_counter_ns()
        resources.init = 1  # the first call is its INIT
        resources.next += 1
        self._busy = True
        try:
            code = self._next(slot, step)
        finally:
            self._touched = now = time.perf_counter_ns()
            self._busy = False
        resources.exec += now - began
        if code is not _UNSET:
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
        self.resources.fuel += executor.fuel - before + 1  # an empty step is work too
        return code

    def read(self, slot: int) -> tuple[Code, bytes]:
        """The prepared batch as a blob."""
        code, blob = self._read(slot, SourceTask.read_blob)
        return code, blob if isinstance(blob, bytes) else b""

    def take(self, slot: int) -> tuple[Code, Item | None]:
        """The prepared batch as it is: a read inside one process, without a copy."""
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
        if code is _UNSET and held is not None:
            size = len(item) if isinstance(item, bytes) else held.executor.size
            resources.recv += size
            resources.peak = max(resources.peak, size)
        else:
            resources.errs += 1
            item = None
        self._touched = now = time.perf_counter_ns()
        resources.exec += now - began
        return code, item

    def done(self, code: Code = Code.UNSET) -> Code:
        """Ends the task with a code: every cursor is closed, every slot invalid, every counter stands still."""
        if self.ended is not None:
            return Code.PANIC
        self.ended = code
        self.resources.done += 1
        self.resources.wall = time.perf_counter_ns() - self._began
        for slot in list(self._slots):
            self._empty(slot)
        return Code.UNSET

    # --- around the ABI ---

    def release(self, slot: int) -> None:
        """Gives a slot back and closes its cursor."""
        if slot in self._slots:
            self._empty(slot)
            self._free = min(self._free, slot)

    def handle(self, slot: int) -> CursorHandle | None:
        """What stands in a slot; None: nothing."""
        held = self._slots.get(slot)
        return None if held is None else held.handle

    def used(self) -> tuple[int, ...]:
        """The sixteen counters, wall up to now."""
        if self.ended is None:
            self.resources.wall = time.perf_counter_ns() - self._began
        return self.resources.values()

    def emitted(self, size: int) -> None:
        """A scanner has written so many bytes of its own, made of what it read."""
        if self.ended is None:
            self.resources.emit += 1
            self.resources.sent += size

    def pinned_bytes(self) -> int:
        """What its cursors keep in memory of versions that are not the newest any more."""
        held = [each for each in list(self._slots.values()) if each is not None]
        return sum(_together(each.executor.pinned_parts() for each in held).values())

    def limit_pins(self, source: SourceTask) -> int:
        """Ends its oldest cursors over a source until the rest pin no more than that allows; gives how many."""
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
        """The reader is there, though it asks nothing."""
        if self.ended is None:
            self.resources.noop += 1
        self._touched = time.perf_counter_ns()

    def lapsed(self) -> bool:
        """Whether nobody has called it for longer than its lease."""
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
        if code is not Code.UNSET:
            self.resources.errs += 1
        return code


def _together(pinned: Iterable[dict[int, int]]) -> dict[int, int]:
    """Parts that several cursors keep count once."""
    parts: dict[int, int] = {}
    for each in pinned:
        parts |= each
    return parts


def _is_slot(number: int) -> bool:
    return type(number) is int and 0 <= number < SLOTS


class TaskCursor:
    """A reader task with one cursor, as code in the same process wants it. A live one over a log that has fallen
    behind the floor opens anew there, and counts what it missed."""

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
        if code is not Code.UNSET:
            fault, _ = self.task.fault, self.task.done(code)
            raise fault or error_of(code, f'topic "{source.id.topic}" can\'t be read')

    def _scan(self, program: Program) -> Code:
        code = self.task.scan(self._slot, self._source.id, program)
        if code is Code.UNSET:
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
        """Goes on at the floor, which may move away again meanwhile."""
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

    def next(self, step: Step) -> Code:
        while True:
            code = self.task.next(self._slot, step)
            if code is _UNSET or code is not Code.REJECTED or not self._is_behind(self._executor.position):
                return code
            code = self._reopen(self._executor.position)
            if code is not Code.UNSET:
                return code

    def read(self) -> tuple[Code, Item | None]:
        return self.task.take(self._slot)

    def emitted(self, size: int) -> None:
        self.task.emitted(size)

    def close(self) -> None:
        """Ends the task; a second time changes nothing."""
        self.task.done()

    def __del__(self) -> None:
        """Whoever forgets a cursor holds nothing by it."""
        if self.task.ended is None:
            self.task.done()
