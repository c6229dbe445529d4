from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gauss.model.errors import ConfigError, Unavailable
from gauss.process.group import ProcessGroup
from gauss.process.guard import session_members
from gauss.process.identity import start_time
from gauss.process.supervise import Child, ChildSpec
from helpers.waiting import wait_until

READY = "import os, time; os.write(int(os.environ['GAUSS_READY_FD']), b'{\"ready\": true}\\n');"


def child(group: ProcessGroup, program: str, **options: float) -> Child:
    spec = ChildSpec("kid", (sys.executable, "-S", "-c", program), backoff_seconds=0.02, **options)  # type: ignore[arg-type]
    return Child(spec, group)


def test_ready_line_makes_the_child_ready(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)")
    kid.start()
    assert kid.changed.wait(60) and kid.state == "ready"
    kid.stop()
    assert kid.join(60) and kid.state == "stopped"
    assert session_members(kid.guard_pid) == []


def test_error_on_the_ready_pipe_gives_up_at_once_with_its_sentence(group: ProcessGroup) -> None:
    said = '{"error": {"code": "config", "message": "port 9100 is in use", "hint": "free it", "retryable": true}}'
    kid = child(group, f"import os, sys; os.write(int(os.environ['GAUSS_READY_FD']), b'''{said}\\n'''); sys.exit(1)")
    kid.start()
    assert kid.changed.wait(60) and kid.state == "failed" and kid.restarts == 0
    assert isinstance(kid.error, ConfigError) and kid.error.message == "port 9100 is in use"
    assert kid.error.hint == "free it"


def test_child_that_never_comes_up_is_given_up_with_the_last_line_of_its_log(group: ProcessGroup) -> None:
    kid = child(group, "raise SystemExit('no luck today')", first_starts=3)
    kid.start()
    assert kid.changed.wait(60) and kid.state == "failed" and kid.restarts == 2
    assert isinstance(kid.error, Unavailable) and "no luck today" in kid.error.message
    assert str(kid.output_path) in kid.error.hint


def test_child_that_dies_after_it_was_ready_is_restarted_with_growing_pauses(
    group: ProcessGroup, tmp_path: Path
) -> None:
    times = tmp_path / "times"
    kid = child(group, READY + f"print(time.monotonic(), file=open({str(times)!r}, 'a')); os._exit(1)")
    kid.start()
    wait_until(lambda: times.exists() and len(times.read_text().split()) >= 6)
    kid.stop()
    assert kid.join(60) and kid.state == "stopped"
    assert kid.restarts >= 5
    found = [float(line) for line in times.read_text().split()]
    pauses = [later - earlier for earlier, later in itertools.pairwise(found)]
    # Each restart also includes a start, which may take longer than any pause on a busy machine.
    assert all(pause >= 0.02 * 2**failures for failures, pause in enumerate(pauses[:5])), pauses


def test_child_that_is_silent_for_too_long_is_ended(group: ProcessGroup) -> None:
    kid = child(group, "import time; time.sleep(600)", ready_seconds=0.2, first_starts=1)
    kid.start()
    assert kid.changed.wait(60) and kid.state == "failed"
    assert kid.error is not None and "was not up within" in kid.error.message
    assert kid.join(60)


@pytest.mark.fault
def test_killed_guard_leaves_no_child_behind(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)")
    kid.start()
    assert kid.changed.wait(60)
    first = kid.guard_pid
    orphan = session_members(first)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: kid.guard_pid != first and kid.state == "ready")
    assert kid.restarts == 1
    assert [pid for pid in orphan if start_time(pid) is not None] == []
    kid.kill()
    assert kid.join(60)


@pytest.mark.fault
def test_kill_9_of_the_parent_leaves_nothing(folder: Path) -> None:
    program = f"""
import sys, time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from gauss.process.group import ProcessGroup
from gauss.process.supervise import Child, ChildSpec
group = ProcessGroup.open(Path({str(folder)!r}), Path({str(folder)!r}))
kid = Child(ChildSpec("kid", (sys.executable, "-S", "-c", {(READY + "time.sleep(600)")!r})), group)
kid.start(); kid.changed.wait(60)
print(kid.guard_pid, flush=True)
time.sleep(600)
"""
    control = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert control.stdout is not None
    guard_pid = int(control.stdout.readline())
    assert len(session_members(guard_pid)) == 1
    control.kill()
    control.wait()
    wait_until(lambda: start_time(guard_pid) is None and session_members(guard_pid) == [])


@contextmanager
def limit(kind: int, soft: int) -> Iterator[None]:
    """Sets a resource limit of this process, which its children inherit."""
    before, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (before, hard))


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Uses up all file descriptors of this process, as idle clients would."""
    taken: list[int] = []
    with limit(resource.RLIMIT_NOFILE, 256):
        try:
            while True:
                try:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            yield
        finally:
            for descriptor in taken:
                os.close(descriptor)


@pytest.mark.fault
def test_child_killed_while_no_file_can_be_written_is_started_again_when_one_can(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)")
    kid.start()
    assert kid.changed.wait(60)
    first = session_members(kid.guard_pid)
    with limit(resource.RLIMIT_FSIZE, 0):  # as with a full disk: the list of processes cannot be written
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: kid.restarts > 2 and "can't be started" in kid.detail)
        assert "File too large" in kid.detail and kid.state == "restarting"
        assert kid.error is not None and kid.error.retryable
    wait_until(lambda: kid.state == "ready")
    assert len(session_members(kid.guard_pid)) == 1
    kid.stop()
    assert kid.join(60) and kid.state == "stopped"


@pytest.mark.fault
def test_child_that_can_not_be_recorded_does_not_run(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)", first_starts=1)
    with limit(resource.RLIMIT_FSIZE, 0):
        kid.start()
        assert kid.changed.wait(60) and kid.state == "failed"
    assert kid.join(60) and session_members(kid.guard_pid) == []
    assert kid.error is not None and "can't be started" in kid.error.message


@pytest.mark.fault
def test_child_killed_while_there_are_no_descriptors_is_started_again(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)")
    kid.start()
    assert kid.changed.wait(60)
    first = session_members(kid.guard_pid)
    with no_descriptors():
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: kid.restarts and kid.state == "ready")
    assert kid.restarts == 1
    kid.stop()
    assert kid.join(60) and kid.state == "stopped"


@pytest.mark.fault
def test_guard_killed_while_there_are_no_descriptors_is_replaced(group: ProcessGroup) -> None:
    kid = child(group, READY + "time.sleep(600)")
    kid.start()
    assert kid.changed.wait(60)
    orphan = session_members(kid.guard_pid)
    with no_descriptors():
        os.kill(kid.guard_pid, signal.SIGKILL)
        wait_until(lambda: kid.restarts and kid.state == "ready")
    assert [pid for pid in orphan if start_time(pid) is not None] == []
    kid.stop()
    assert kid.join(60)


def test_child_is_ready_when_its_pipe_has_a_number_that_select_does_not_take(group: ProcessGroup) -> None:
    taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(1_100)]
    try:
        kid = child(group, READY + "time.sleep(600)")
        kid.start()
        assert kid.changed.wait(60) and kid.state == "ready"
        kid.stop()
        assert kid.join(60)
    finally:
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("said", ["{", "nonsense\\n", '{"ready": true'])
def test_child_that_dies_with_half_a_ready_line_is_not_ready(group: ProcessGroup, said: str) -> None:
    kid = child(group, f"import os; os.write(int(os.environ['GAUSS_READY_FD']), b'''{said}''')", first_starts=2)
    kid.start()
    assert kid.changed.wait(60) and kid.state == "failed" and kid.restarts == 1
