"""A cursor over an external table: its own thread queries the server, so that no other reader waits for it."""

from __future__ import annotations

import logging
import queue
import threading

import pyarrow as pa

from gauss.contracts.cursor import Code, Step
from gauss.contracts.table_read import READ_SECONDS, Pages, TableReader, TableReadRequest
from gauss.model.errors import GaussError, Rejected, StorageError, Unavailable
from gauss.scan.sizes import byte_counter, row_sizes

WAIT_SECONDS = READ_SECONDS + 5.0
AHEAD = 1
"""Pages that are prefetched."""

log = logging.getLogger(__name__)


class _End:
    """The thread's last message."""


class StoredCursor:
    """Implements `contracts.cursor.Cursor`; called by one thread, closed by any."""

    hold = 0

    def __init__(
        self,
        topic: str,
        reader: TableReader,
        asked: TableReadRequest,
        *,
        version: int,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.pinned_version = version
        self.position = 0
        """Number of rows returned so far."""
        self._topic = topic
        self._wait = wait_seconds
        self._answers: queue.Queue[object] = queue.Queue(AHEAD)
        self._closed = threading.Event()
        self._left: pa.RecordBatch | None = None
        self._batch: pa.RecordBatch | None = None
        self._ended = False
        self._pages: Pages | None = None
        threading.Thread(target=self._read, args=(reader, asked), name=f"read {topic}", daemon=True).start()
        try:
            pages = self._next_answer()
        except BaseException:
            self.close()
            raise
        self.sql: str = pages.sql  # type: ignore[attr-defined]
        self.order: str = pages.order  # type: ignore[attr-defined]

    # --- the thread ---

    def _read(self, reader: TableReader, asked: TableReadRequest) -> None:
        try:
            pages = self._pages = reader.open(asked)
            try:
                self._say(pages)
                while not self._closed.is_set() and (batch := pages.next()) is not None:
                    self._say(batch)
                self._say(_End())
            finally:
                pages.close()
        except GaussError as error:
            self._say(error)
        except Exception as error:
            if not self._closed.is_set():
                log.exception("reading the table of %s failed", self._topic)
                self._say(StorageError(f'the table of topic "{self._topic}": {type(error).__name__}: {error}'))

    def _say(self, answer: object) -> None:
        while not self._closed.is_set():
            try:
                self._answers.put(answer, timeout=0.2)
                return
            except queue.Full:
                continue

    # --- the caller ---

    def _next_answer(self) -> object:
        try:
            answer = self._answers.get(timeout=self._wait)
        except queue.Empty:
            raise Unavailable(
                f'the table of topic "{self._topic}" has not answered for {self._wait:.0f} s',
                hint="its server may be busy; read less, or try again",
            ) from None
        if isinstance(answer, Unavailable | StorageError):
            raise answer
        if isinstance(answer, GaussError):  # the statement is ours, so its error is not the reader's fault
            raise Rejected(answer.message, hint=answer.hint)
        return answer

    def next(self, step: Step) -> Code:
        self._batch = None
        if self._closed.is_set() or step.limit <= 0 or step.max_bytes <= 0:
            return Code.INVALID
        parts: list[pa.RecordBatch] = []
        rows, size = step.limit, step.max_bytes
        while rows > 0:
            if self._left is None and not self._load():
                break
            assert self._left is not None
            part, took = _cut(self._left, rows, size, at_least=0 if parts else 1)
            if part.num_rows:
                parts.append(part)
                rows, size = rows - part.num_rows, size - took
            whole = part.num_rows == self._left.num_rows
            self._left = None if whole else self._left.slice(part.num_rows)
            if not whole or not step.fill:
                break
        if not parts:
            return Code.INVALID
        self._batch = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        self.position += self._batch.num_rows
        return Code.OK

    def _load(self) -> bool:
        if self._ended:
            return False
        answer = self._next_answer()
        if isinstance(answer, _End):
            self._ended = True
            return False
        assert isinstance(answer, pa.RecordBatch)
        self._left = answer
        return True

    def read(self) -> tuple[Code, pa.RecordBatch | None]:
        return (Code.INVALID, None) if self._batch is None else (Code.OK, self._batch)

    def close(self) -> None:
        """Lets the thread end by itself, since the server may not answer."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._left = self._batch = None
        if self._pages is not None and not self._ended:
            threading.Thread(target=self._pages.cancel, name=f"end {self._topic}", daemon=True).start()


def _cut(batch: pa.RecordBatch, rows: int, size: int, *, at_least: int) -> tuple[pa.RecordBatch, int]:
    """The first rows that fit, and their bytes."""
    part = batch.slice(0, min(rows, batch.num_rows))
    whole = byte_counter(part.schema)(part)
    if whole <= size:
        return part, whole
    ends = row_sizes(part).cumsum()
    count = max(at_least, int(ends.searchsorted(size, side="right")))
    return part.slice(0, count), int(ends[count - 1]) if count else 0
