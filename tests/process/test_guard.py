from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gauss.process import guard

if TYPE_CHECKING:
    from .conftest import Guarded

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
ANSWERING = "import signal, time; signal.signal(15, lambda *_: print('asked', flush=True)); print('up', flush=True)"
WITH_DAEMON = """
import os, signal, time
reading, writing = os.pipe()
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        signal.signal(15, signal.SIG_IGN) if {stubborn} else None
        print('daemon', flush=True)
        os.write(writing, b'.')
        time.sleep(600)
    os._exit(0)
os.read(reading, 1)
time.sleep({seconds})
"""

Start = Callable[[str], "Guarded"]


def test_exit_code_of_the_child_is_passed_on(guarded: Start) -> None:
    assert guarded("import sys; sys.exit(7)").process.wait(60) == 7


def test_child_ended_by_a_signal_gives_128_plus_its_number(guarded: Start) -> None:
    assert guarded("import os; os.kill(os.getpid(), 9)").process.wait(60) == 137


def test_stop_byte_reaches_the_child_as_sigterm(guarded: Start) -> None:
    program = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(3))\nprint('up', flush=True)\n"
    child = guarded(program + "time.sleep(600)")
    child.wait_output("up")
    os.write(child.pipe, b"t")
    assert child.process.wait(60) == 3


def test_end_of_the_control_pipe_ends_the_child(guarded: Start) -> None:
    child = guarded(SLEEPER)
    child.wait_output("up")
    child.let_go()
    assert child.process.wait(60) == 143
    assert child.members() == []


@pytest.mark.fault
def test_child_that_ignores_term_is_killed_after_the_grace(guarded: Start) -> None:
    child = guarded(STUBBORN)
    child.wait_output("up")
    began = time.monotonic()
    child.let_go()
    assert child.process.wait(guard.TERM_SECONDS + 60) == 137
    assert time.monotonic() - began >= guard.TERM_SECONDS


def test_kill_byte_ends_a_stubborn_tree_without_the_grace(guarded: Start) -> None:
    child = guarded(ANSWERING + "\nwhile True: time.sleep(600)")
    child.wait_output("up")
    os.write(child.pipe, b"k")
    assert child.process.wait(60) == 137
    assert "asked" not in child.log.read_text()  # a process with time for a clean stop gets SIGTERM first


def test_daemonised_grandchild_in_another_group_dies_with_control(guarded: Start) -> None:
    child = guarded(WITH_DAEMON.format(stubborn=False, seconds=600))
    child.wait_output("daemon")
    child.let_go()
    child.process.wait(60)
    assert child.members() == []


def test_daemonised_grandchild_dies_when_the_child_exits(guarded: Start) -> None:
    child = guarded(WITH_DAEMON.format(stubborn=False, seconds=0))
    child.wait_output("daemon")
    assert child.process.wait(60) == 0
    assert child.members() == []


def test_sigterm_to_the_guard_itself_ends_the_tree(guarded: Start) -> None:
    child = guarded(SLEEPER)
    child.wait_output("up")
    child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(60) == 143


def test_session_members_understands_a_name_with_a_parenthesis(guarded: Start) -> None:
    child = guarded(
        "open('/proc/self/comm', 'w').write('a) R 1'); print('up', flush=True); import time; time.sleep(600)"
    )
    child.wait_output("up")
    assert len(child.members()) == 1


def test_rotate_moves_a_long_log_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        for text in (b"first", b"second", b"third", b"fourth", b"fifth"):
            writer.write(text)
            guard.rotate(str(path), limit=1, keep=3)
        writer.write(b"last")
    assert path.read_bytes() == b"last"
    assert [(tmp_path / f"a.log.{n}").read_bytes() for n in (1, 2, 3)] == [b"fifth", b"fourth", b"third"]
    assert not (tmp_path / "a.log.4").exists()
