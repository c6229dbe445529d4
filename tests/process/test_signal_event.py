"""Events that signal handlers set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gauss.process.signal_event import SignalEvent


def test_a_set_event_ends_all_waits() -> None:
    event = SignalEvent()
    assert not event.is_set() and not event.wait(0) and not event.wait(0.01)
    found: list[bool] = []
    waiting = [threading.Thread(target=lambda: found.append(event.wait(60))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    event.set()
    event.set()
    for thread in waiting:
        thread.join(60)
    assert found == [True] * 3 and event.wait() and event.is_set()
    with pytest.raises(NotImplementedError):
        event.clear()


def test_a_signal_at_any_moment_of_a_wait_is_heard() -> None:
    """With a `threading.Event` this ends in a deadlock within a second."""
    code = (
        "import os, signal\n"
        "from gauss.process.signal_event import SignalEvent\n"
        "event = SignalEvent()\n"
        "signal.signal(signal.SIGUSR1, lambda *_: event.set())\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    event.wait(0.0001)\n"
        "    event._set = False\n"
        "    os.eventfd_read(event._written) if event.wait(0) else None\n"
        "    print('.', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        end = time.monotonic() + 1.5
        reader = threading.Thread(target=process.stdout.read, daemon=True)
        reader.start()
        while time.monotonic() < end:
            os.kill(process.pid, signal.SIGUSR1)
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM
