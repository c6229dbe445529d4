"""The output of a tool, as it comes: whole for a client that has asked for it, a bounded part of it for a log."""

from __future__ import annotations

import codecs
import fcntl
import logging
import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from gauss.dbstates.errors import ScriptFailed
from gauss.model.errors import GaussError

LINE_BYTES = 8 << 10
"""Longer lines are cut in logs."""
MOST_LINES = 1000
"""Lines per stream in logs."""
KEPT_ERRORS = 5
_CHUNK_BYTES = 64 << 10
_POLL_MS = 100

log = logging.getLogger("gauss.dbstates")
Line = Callable[[str, str], None]
"""Called with `stdout` or `stderr`, and a line."""


def chunks(stream: BinaryIO, ended: threading.Event) -> Iterator[bytes]:
    """Everything that a tool writes. `ended`: the tool and its session have ended, so that the rest is in the pipe,
    which a process that has left the session may keep open, and write to."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    rest: int | None = None
    while rest is None or rest > 0:
        if rest is None and ended.is_set():
            rest = fcntl.fcntl(stream, fcntl.F_GETPIPE_SZ)
        if poll.poll(_POLL_MS if rest is None else 0):
            if not (chunk := os.read(stream.fileno(), _CHUNK_BYTES)):
                return
            rest = None if rest is None else rest - len(chunk)
            yield chunk
        elif rest is not None:
            return


def pieces(chunks: Iterable[bytes], most: int) -> Iterator[tuple[bytes, bool]]:
    """Lines without their line breaks, and whether the line ends here: a line of more than `most` bytes may come in
    pieces."""
    rest, ends = b"", True
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line, (ends := True)
        if len(rest) > most:
            yield rest, (ends := False)
            rest = b""
    if rest or not ends:
        yield rest, True


def texts(pieces: Iterable[tuple[bytes, bool]]) -> Iterator[tuple[str, bool]]:
    """The same as text. A letter whose bytes are in two pieces is in the second one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece, ends in pieces:
        yield decoder.decode(piece, final=ends), ends


class StepOutput:
    """The output of a step: told as log events as far as that is possible, and its errors kept for the message of a
    failure."""

    def __init__(self, tell: Line) -> None:
        self._tell = tell
        self._fails = False
        self._errors: list[str] = []
        self._last = ""

    def read(self, stream: str, chunks: Iterator[bytes]) -> None:
        """Reads to the end, whatever comes: the tool must not wait for somebody to read its output."""
        count, begins = 0, True
        for piece, ends in pieces(chunks, LINE_BYTES):
            if begins:
                count += 1
                if count <= MOST_LINES:
                    self._line(stream, _shortened(piece, ends))
            begins = ends
        if count > MOST_LINES:
            self._line(stream, f"… {count - MOST_LINES:,} more lines")

    def _line(self, stream: str, text: str) -> None:
        if stream == "stderr" and text.strip():
            self._last = text.strip()
            if len(self._errors) < KEPT_ERRORS and ("ERROR:" in text or "FATAL:" in text or "error:" in text):
                self._errors.append(text.strip())
        if not self._fails:
            try:
                self._tell(stream, text)
            except GaussError as error:  # such as a full disk
                self._fails = True
                log.warning("output of a tool is not told: %s", error.message)

    def failure(self, title: str, code: int) -> ScriptFailed:
        why = "; ".join(self._errors) or self._last or "no error output"
        return ScriptFailed(f"{title} failed with exit code {code}: {why}", hint="see the log events of the job")


def _shortened(line: bytes, ends: bool) -> str:
    """The beginning of a line as text."""
    cut = len(line) > LINE_BYTES or not ends
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(line[:LINE_BYTES], final=not cut).rstrip("\r").replace("\0", "\\0")
    return f"{text}…" if cut else text
