"""The host functions of protocol v1, on the memory of a guest.

All take addresses and lengths as u32 and return an i32: above 0 a number of bytes, 0 success, end or absence, -1 an
error that `last_error` returns once, -N (N > 1) a buffer that is too small for N bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from gauss.connect.arrow_ipc import write_batch
from gauss.connect.host import StreamHost
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import KEY_BYTES, STATE_BYTES, LogLevel, Opaque
from gauss.contracts.connector.json_form import decode
from gauss.contracts.connector.progress import CheckpointEnvelope, CheckpointKind, MetricEnvelope, StateScope

ERROR = -1
MESSAGE_BYTES = 1 << 20
"""Maximum size of a checkpoint, metric or log message."""
SCOPES = (StateScope.PIPELINE, StateScope.STREAM, StateScope.CONNECTOR_INSTANCE)
KINDS = (CheckpointKind.SOURCE, CheckpointKind.DEST)


class MemoryFault(Exception):
    """An address outside the guest's memory."""


class Memory(Protocol):
    """The memory of a guest."""

    def read(self, pointer: int, length: int) -> bytes:
        """Raises MemoryFault."""
        ...

    def write(self, pointer: int, data: bytes) -> None:
        """Raises MemoryFault."""
        ...


class HostFunctions:
    """`rb_host_*` of one guest. Used by the thread that runs it."""

    def __init__(self, host: StreamHost, memory: Memory) -> None:
        self._host, self._memory = host, memory
        self._pending: bytes | None = None
        """A batch that was received and did not get into the guest's memory: the next call gets it."""
        self._last_error: ConnectorError | None = None
        self.failure: ConnectorError | None = None
        """The last error of the host, for a guest that ends without one of its own."""

    @property
    def has_pending(self) -> bool:
        """Whether a batch was received that the guest has not taken."""
        return self._pending is not None

    def emit_batch(self, pointer: int, length: int) -> int:
        def work() -> int:
            self._limited(length, self._host.batch_bytes, "BATCH_TOO_LARGE", "a batch")
            self._host.emit_batch(self._memory.read(pointer, length))
            return 0

        return self._guarded(work)

    def next_batch(self, pointer: int, capacity: int) -> int:
        def work() -> int:
            if self._pending is None:
                rows = self._host.next_batch()
                if rows is None:
                    return 0
                assert not isinstance(rows, Opaque)
                self._pending = write_batch(rows)
            written = self._answer(self._pending, pointer, capacity)
            if written >= 0:
                self._pending = None
            return written

        return self._guarded(work)

    def last_error(self, pointer: int, capacity: int) -> int:
        """The error of the last failed call, once; 0 if there is none. Kept while it does not get into the guest."""
        if self._last_error is None:
            return 0
        try:
            written = self._answer(self._last_error.to_json(), pointer, capacity)
        except MemoryFault:
            return ERROR
        if written >= 0:
            self._last_error = None
        return written

    def state_get(self, scope: int, key: int, key_length: int, pointer: int, capacity: int) -> int:
        def work() -> int:
            found = self._host.state_get(self._scope(scope), self._key(key, key_length))
            return 0 if found is None else self._answer(found, pointer, capacity)

        return self._guarded(work)

    def state_put(self, scope: int, key: int, key_length: int, value: int, value_length: int) -> int:
        def work() -> int:
            self._limited(value_length, STATE_BYTES, "STATE_TOO_LARGE", "a state value")
            data = self._memory.read(value, value_length)
            self._host.state_put(self._scope(scope), self._key(key, key_length), data)
            return 0

        return self._guarded(work)

    def checkpoint(self, kind: int, pointer: int, length: int) -> int:
        def work() -> int:
            if not 0 <= kind < len(KINDS):
                raise ConnectorError.internal("BAD_KIND", f"the kind of a checkpoint is 0 or 1, found {kind}")
            found = decode(self._message(pointer, length, "a checkpoint"), CheckpointEnvelope)
            if found.checkpoint.kind is not KINDS[kind]:
                raise ConnectorError.internal(
                    "BAD_CHECKPOINT", f"expected a {KINDS[kind]} checkpoint, found {found.checkpoint.kind}"
                )
            self._host.checkpoint(found.checkpoint)
            return 0

        return self._guarded(work)

    def log(self, level: int, pointer: int, length: int) -> int:
        def work() -> int:
            known = LogLevel(min(max(level, LogLevel.ERROR), LogLevel.TRACE))
            self._host.log(known, self._message(pointer, length, "a message").decode(errors="replace"))
            return 0

        return self._guarded(work)

    def metric(self, pointer: int, length: int) -> int:
        def work() -> int:
            self._host.metric(decode(self._message(pointer, length, "a metric"), MetricEnvelope).metric)
            return 0

        return self._guarded(work)

    def report_progress(self, records: int, size: int) -> int:
        def work() -> int:
            if records < 0 or size < 0:
                raise ConnectorError.internal("BAD_PROGRESS", f"totals are not negative, found {records} and {size}")
            self._host.report_progress(records, size)
            return 0

        return self._guarded(work)

    def warn(self, message: str) -> None:
        """Logs a remark of the host about the guest."""
        self._host.log(LogLevel.WARN, message)

    # --- common to all ---

    def _guarded(self, work: Callable[[], int]) -> int:
        """Runs a call. A success clears the last error, a failure sets it."""
        try:
            done = work()
        except ConnectorError as error:
            return self._failed(error)
        except MemoryFault as error:
            return self._failed(ConnectorError.internal("MEMORY_FAULT", str(error)))
        except msgspec.MsgspecError as error:
            return self._failed(ConnectorError.internal("BAD_PAYLOAD", f"the payload can't be read: {error}"))
        except Exception as error:  # such as a state store that does not answer
            return self._failed(ConnectorError.internal("HOST_FAILED", f"{type(error).__name__}: {error}"))
        if done >= 0:
            self._last_error = None
        return done

    def _failed(self, error: ConnectorError) -> int:
        self._last_error = self.failure = error
        return ERROR

    def _answer(self, data: bytes, pointer: int, capacity: int) -> int:
        """Writes an answer; -N if the buffer is too small. -1 would be an error, so a need of one byte is -2."""
        if len(data) > capacity:
            return -max(len(data), 2)
        self._memory.write(pointer, data)
        return len(data)

    def _message(self, pointer: int, length: int, what: str) -> bytes:
        self._limited(length, MESSAGE_BYTES, "TOO_LARGE", what)
        return self._memory.read(pointer, length)

    def _key(self, pointer: int, length: int) -> str:
        self._limited(length, KEY_BYTES, "BAD_KEY", "a state key")
        try:
            return self._memory.read(pointer, length).decode()
        except UnicodeDecodeError as error:
            raise ConnectorError.internal("BAD_KEY", "a state key is UTF-8") from error

    @staticmethod
    def _limited(length: int, most: int, code: str, what: str) -> None:
        if length > most:
            raise ConnectorError.config(code, f"{what} has at most {most:,} bytes, found {length:,}")

    @staticmethod
    def _scope(scope: int) -> StateScope:
        if not 0 <= scope < len(SCOPES):
            raise ConnectorError.internal("BAD_SCOPE", f"a state scope is 0, 1 or 2, found {scope}")
        return SCOPES[scope]
