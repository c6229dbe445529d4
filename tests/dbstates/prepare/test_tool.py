"""The output of tools: nothing is lost, nothing is cut but in logs, nobody is waited for in vain."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.dbstates.errors import Cancelled
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.output import LINE_BYTES, MOST_LINES, StepOutput, pieces, texts
from gauss.dbstates.prepare.tool import Reader, run_tool
from gauss.dbstates.runtimes.runtime import ToolCall
from gauss.model.errors import ConfigError, StorageError


def run(script: str, read: Reader, *args: str, cwd: Path = Path("/"), control: JobControl | None = None) -> int:
    call = ToolCall(["/bin/sh", "-c", script, "sh", *args], {"PATH": os.environ["PATH"]}, cwd)
    return run_tool(call, control or JobControl(), read)


def test_a_slow_reader_gets_all_lines() -> None:
    """Its tool ends long before it has read what is left in the pipe."""
    found: list[str] = []

    def read(_: str, chunks: Iterator[bytes]) -> None:
        for text, _ends in texts(pieces(chunks, 1 << 20)):
            found.append(text)
            if len(found) == 199_000:
                time.sleep(1.5)

    assert run("seq 1 200000", read) == 0
    assert found == [str(number) for number in range(1, 200_001)]


def test_a_process_that_leaves_the_session_holds_nobody_up() -> None:
    found: list[bytes] = []
    began = time.monotonic()
    assert run("echo one; setsid sleep 5 & echo two", lambda _, chunks: found.extend(chunks)) == 0
    assert b"".join(found) == b"one\ntwo\n"
    run("setsid timeout 5 yes & sleep 0.1", lambda _, chunks: found.extend(chunks))
    assert time.monotonic() - began < 4


def test_a_long_line_comes_in_pieces_that_make_it_up() -> None:
    line = "é" * 300_000 + "\r"
    content = f"a\n{line}\n\nlast".encode()
    for size in (7, 4096, 65536):
        chunks = (content[at : at + size] for at in range(0, len(content), size))
        found = list(texts(pieces(chunks, 1000)))
        assert len(found) > 4
        lines, rest = list[str](), ""
        for text, ends in found:
            rest += text
            if ends:
                lines, rest = [*lines, rest], ""
        assert (lines, rest) == (["a", line, "", "last"], "")


def test_the_log_of_a_step_has_the_beginning_of_lines_and_of_the_output() -> None:
    lines: list[str] = []
    script = "for n in $(seq 20000); do printf 123456789é; done; echo; echo short; seq 1 2000"
    assert run(script, StepOutput(lambda _, text: lines.append(text)).read) == 0
    assert lines[0].endswith("…") and set(lines[0]) == set("123456789é…")
    assert LINE_BYTES - 2 <= len(lines[0].encode()) <= LINE_BYTES + 3
    assert lines[1:3] == ["short", "1"]
    assert lines[MOST_LINES:] == [f"… {2002 - MOST_LINES:,} more lines"]


def test_a_log_that_can_not_be_stored_does_not_stop_the_tool() -> None:
    def full(*_: str) -> None:
        raise StorageError("the disk is full")

    output = StepOutput(full)
    assert run("seq 1 100000; echo 'ERROR: why' >&2; exit 3", output.read) == 3
    assert "why" in output.failure("a.sql", 3).message


def test_the_error_of_a_reader_is_that_of_the_run() -> None:
    def read(*_: object) -> None:
        raise Cancelled("the reader has left")

    with pytest.raises(Cancelled, match="has left"):
        run("seq 1 100000", read)


def test_a_tool_that_can_not_be_started_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="longer than the system allows"):
        run("true", lambda *_: None, "x" * (200 << 10))
    with pytest.raises(ConfigError, match="no folder"):
        run("true", lambda *_: None, cwd=tmp_path / "none")
    with pytest.raises(ConfigError, match="NUL"):
        run("true", lambda *_: None, "a\0b")
