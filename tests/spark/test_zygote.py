"""Launcher and zygote without a JVM: to its parent the launcher looks like an ordinary Python process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gauss.spark import launcher, session, zygote
from helpers.waiting import wait_until

MODULES = ("json",)
WAITS = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A zygote with few imports; its socket is in tmp_path."""
    process = zygote.start(tmp_path, MODULES)
    yield process
    process.kill()
    process.wait()


Launch = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts the launcher as Spark starts a Python process."""
    started: list[subprocess.Popen[str]] = []

    def make(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-I", "-S", launcher.__file__, str(tmp_path), sys.executable, *arguments]
        pipe = subprocess.PIPE
        environment = {**os.environ, **(env or {})}
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=cwd)
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def first_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('no')", 1),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os; os._exit(3)", 3),
        ("import sys; sys.exit(-1)", 255),
    ],
)
def test_exit_code_of_the_child_is_the_launchers(
    parent: subprocess.Popen[bytes], launch: Launch, code: str, expected: int
) -> None:
    process = launch("-c", code)
    assert process.wait(60) == expected
    assert parent.poll() is None


def test_trace_of_the_child_comes_out_of_the_launchers_stderr(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    _, errors = launch("-c", "1 / 0").communicate(timeout=60)
    assert "ZeroDivisionError" in errors
    assert parent.poll() is None


def test_child_is_a_fork_of_the_zygote_with_the_launchers_arguments_folder_and_environment(
    parent: subprocess.Popen[bytes], launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "probe.py").write_text(
        "import json, os, sys\n"
        "print(json.dumps([__name__, os.getppid(), sys.argv, os.getcwd(), dict(os.environ), sys.path]))\n"
    )
    other = tmp_path / "other"
    other.mkdir()
    env = {"GAUSS_PROBE": "é\n=x", "PYTHONPATH": str(tmp_path)}
    output, errors = launch("-m", "probe", "a b", "c", env=env, cwd=other).communicate(timeout=60)
    assert not errors
    name, ppid, argv, cwd, environment, path = json.loads(output)
    assert (name, ppid, argv[1:], cwd) == ("__main__", parent.pid, ["a b", "c"], str(other))
    assert argv[0] == str(tmp_path / "probe.py")
    assert environment == {**os.environ, **env}
    assert path[:2] == [str(other), str(tmp_path)]


def test_path_and_hashes_are_those_of_an_ordinary_python(
    parent: subprocess.Popen[bytes], launch: Launch, tmp_path: Path
) -> None:
    code = "import sys; print(sys.path[1:], hash('gauss'), sys.executable, sys.flags.hash_randomization)"
    env = {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}
    ordinary = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **env}
    )
    output, _ = launch("-c", code, env=env).communicate(timeout=60)
    assert output == ordinary.stdout
    assert parent.poll() is None


def test_standard_input_and_its_end_reach_the_child(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    output, _ = launch("-c", "import sys; print(sys.stdin.read().upper())").communicate("abc\n" * 100_000, timeout=60)
    assert output == "ABC\n" * 100_000 + "\n"
    assert parent.poll() is None


def test_closed_standard_output_is_seen_while_the_child_lives(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    process = launch("-c", "import os, sys; os.close(1); sys.stdin.read()")
    assert process.stdout is not None and process.stdout.read() == ""
    assert process.poll() is None and parent.poll() is None


def test_two_children_draw_different_random_numbers(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    code = "import random; print(random.random())"
    drawn = {launch("-c", code).communicate(timeout=60)[0] for _ in range(2)}
    assert len(drawn) == 2 and parent.poll() is None


def test_loaded_module_runs_as_main_without_a_warning(
    parent: subprocess.Popen[bytes], launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "given.json").write_text('{"a":1}')
    output, errors = launch("-m", "json.tool", "--compact", str(tmp_path / "given.json")).communicate(timeout=60)
    assert (output, errors) == ('{"a":1}\n', "") and parent.poll() is None


def test_name_of_the_child_is_that_of_its_module(
    parent: subprocess.Popen[bytes], launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "a_module_with_a_long_name.py").write_text(WAITS)
    launched = launch("-m", "a_module_with_a_long_name", env={"PYTHONPATH": str(tmp_path)})
    child = psutil.Process(first_pid(launched))
    assert child.ppid() == parent.pid
    assert process_name(child.pid) == "a_module_with_a"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_the_launcher_reaches_the_child(
    parent: subprocess.Popen[bytes], launch: Launch, number: signal.Signals
) -> None:
    code = (
        "import os, signal, sys, time\n"
        f"signal.signal({int(number)}, lambda number, _: sys.exit(40 + number))\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)"
    )
    process = launch("-c", code)
    first_pid(process)
    process.send_signal(number)
    assert process.wait(60) == 40 + number
    assert parent.poll() is None


def test_child_without_a_handler_ends_by_the_signal(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    process = launch("-c", WAITS)
    pid = first_pid(process)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert gone(pid) and parent.poll() is None


def test_missing_zygote_gives_an_ordinary_python(launch: Launch) -> None:
    output, _ = launch("-c", "import os; print(os.getpid())").communicate("", timeout=60)
    process = launch("-c", "import os; print(os.getpid()); raise SystemExit(5)")
    assert int(output) > 0
    assert first_pid(process) == process.pid
    assert process.wait(60) == 5


def test_options_other_than_module_and_code_give_an_ordinary_python(
    parent: subprocess.Popen[bytes], launch: Launch
) -> None:
    output, errors = launch("-V").communicate(timeout=60)
    assert output.startswith("Python 3") and not errors and parent.poll() is None


@pytest.mark.fault
def test_killed_launcher_takes_the_child_with_it(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    process = launch("-c", WAITS)
    pid = first_pid(process)
    process.kill()
    wait_until(lambda: gone(pid), 60, "child gone")
    assert launch("-c", "pass").wait(60) == 0, "the zygote serves on"
    assert parent.poll() is None


@pytest.mark.fault
def test_killed_child_ends_the_launcher(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    process = launch("-c", WAITS)
    os.kill(first_pid(process), signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGKILL
    assert parent.poll() is None


@pytest.mark.fault
def test_killed_zygote_leaves_its_children_alone_and_later_ones_are_ordinary(
    parent: subprocess.Popen[bytes], launch: Launch
) -> None:
    living = launch("-c", "import os; print(os.getpid(), flush=True); print(input())")
    pid = first_pid(living)
    parent.kill()
    parent.wait()
    assert not gone(pid)
    output, _ = living.communicate("still here\n", timeout=60)
    assert output == "still here\n"
    later = launch("-c", "import os; print(os.getpid())")
    assert first_pid(later) == later.pid


@pytest.mark.fault
def test_signal_reaches_the_child_after_the_zygote_was_killed(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    process = launch("-c", WAITS)
    pid = first_pid(process)
    parent.kill()
    parent.wait()
    process.terminate()
    process.wait(60)
    assert gone(pid)


@pytest.mark.fault
def test_zygote_that_dies_before_it_answers_gives_an_ordinary_python(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time; time.sleep(60)")
    environment = dict(os.environ)
    os.environ["PYTHONPATH"] = str(tmp_path)
    try:
        loading = zygote.start(tmp_path, ("endless",))
    finally:
        os.environ.clear()
        os.environ.update(environment)
    waiting = launch("-c", "import os; print(os.getpid())")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.5)
    loading.kill()
    loading.wait()
    assert first_pid(waiting) == waiting.pid


def test_zygote_ends_when_its_standard_input_does(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    assert launch("-c", "pass").wait(60) == 0
    assert parent.stdin is not None
    parent.stdin.close()
    assert parent.wait(60) == 0


def test_what_can_wait_is_loaded_while_nobody_asks_and_does_no_harm_when_it_can_not_be(
    launch: Launch, tmp_path: Path
) -> None:
    process = zygote.start(tmp_path, MODULES, ("no_such_module", "colorsys"))
    code = "import sys; print('colorsys' in sys.modules)"
    wait_until(lambda: launch("-c", code).communicate(timeout=60)[0] == "True\n", 60, "the module is loaded")
    process.kill()
    process.wait()


def test_socket_is_for_its_owner_alone_and_works_under_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    process = zygote.start(folder, MODULES)
    assert (folder / launcher.SOCKET).stat().st_mode & 0o777 == 0o600
    command = [sys.executable, "-I", "-S", launcher.__file__, str(folder), sys.executable]
    done = subprocess.run([*command, "-c", "import os; print(os.getppid())"], capture_output=True, check=True)
    assert int(done.stdout) == process.pid
    process.kill()
    process.wait()


def test_folder_that_takes_no_socket_costs_the_zygote_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise OSError("Operation not supported")

    monkeypatch.setattr(zygote, "start", refused)
    monkeypatch.setattr(session, "_zygotes", [])
    session._start_zygote(tmp_path, session.NOTHING)
    assert "Operation not supported" in caplog.text and not session._zygotes


def test_ten_at_once_are_all_served(parent: subprocess.Popen[bytes], launch: Launch) -> None:
    processes = [launch("-c", f"import time; time.sleep(0.2); raise SystemExit({n})") for n in range(10)]
    assert [process.wait(60) for process in processes] == list(range(10))
    assert parent.poll() is None


def test_half_a_request_costs_nobody_anything(parent: subprocess.Popen[bytes], launch: Launch, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as half:
        half.connect(str(tmp_path / launcher.SOCKET))
        half.sendall(b"\xff\xff")
    assert launch("-c", "pass").wait(60) == 0
    assert parent.poll() is None


def test_what_spark_asks_for_loads_without_a_thread_of_python_and_without_pandas(
    launch: Launch, tmp_path: Path
) -> None:
    process = zygote.start(tmp_path)
    code = (
        "import os, sys\n"
        "names = set()\n"
        "for task in os.listdir(f'/proc/{os.getppid()}/task'):\n"
        "    try: names.add(open(f'/proc/{os.getppid()}/task/{task}/comm').read().strip())\n"
        "    except OSError: pass  # a helper of a library that has ended meanwhile\n"
        "print(sorted(names), 'pandas' in sys.modules, 'pyspark.worker' in sys.modules)"
    )
    output, _ = launch("-c", code).communicate(timeout=120)
    names, _, modules = output.strip().partition("] ")
    assert modules == "False True"
    # Allocators restart their threads after a fork, and polars' cleaner watches a folder that is not used here.
    known = {process_name(process.pid), "jemalloc_bg_thd", "polars-ooc-clea"}
    assert set(json.loads(names.replace("'", '"') + "]")) <= known
    process.kill()
    process.wait()


def process_name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
