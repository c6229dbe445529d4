"""The ready line: writer, reader and spawning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gauss.process.ready import last_line, read_ready, spawn

REPORT = "from gauss.process.ready import report; report({'ready': True, 'port': 7}); report({'ready': False})"


def test_spawned_process_reports_its_pid_and_what_it_says_once() -> None:
    process, ready = spawn([sys.executable, "-c", REPORT])
    with os.fdopen(ready, "rb") as lines:
        assert read_ready(ready, 60) == {"ready": True, "port": 7, "pid": process.pid}
        assert lines.read() == b""
    assert process.wait(60) == 0


def test_report_without_a_reader_does_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    from gauss.process.ready import report

    report({"ready": True})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("written", [b"", b'{"ready": true', b"nonsense\n", b"[1]\n"])
def test_reader_raises_eof_when_the_writer_ends_without_a_whole_line(written: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, written)
    os.close(writing)
    with os.fdopen(reading), pytest.raises(EOFError):
        read_ready(reading, 60)


def test_reader_raises_timeout_when_nothing_comes() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing), pytest.raises(TimeoutError):
        read_ready(reading, 0.01)


LEAKS = """
import os
from gauss.process.ready import spawn
before = os.listdir("/proc/self/fd")
try:
    spawn(["/nonexistent/program"])
except FileNotFoundError:
    print(os.listdir("/proc/self/fd") == before)
"""


def test_spawn_of_a_missing_program_leaves_no_descriptor_open() -> None:
    # In a process of its own: threads that earlier tests have left open and close descriptors here.
    done = subprocess.run([sys.executable, "-c", LEAKS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"


def test_last_line_is_that_of_the_output_or_says_that_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("Traceback\nValueError: no\n\n")
    assert last_line(tmp_path / "out") == "ValueError: no"
    assert last_line(tmp_path / "missing") == "no output"
