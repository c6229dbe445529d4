"""`gauss run` from the command line: a fast start, one line of output, a stop by signal, and no process left."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gauss.cli.output import CommandOutput
from gauss.cli.run_log import RunLog
from helpers.feeds import Collector, send
from helpers.pipelines import example_1
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import stays, suspend, wait_until

pytestmark = pytest.mark.system

Make = Callable[[], Run]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Run] = []

    def one() -> Run:
        folder = tmp_path / f"run{len(made)}"
        folder.mkdir()
        made.append(Run(folder, example_1(free_port(), free_port())))
        return made[-1]

    yield one
    for run in made:
        run.end()


def gone(run: Run) -> None:
    wait_until(lambda: not run.tree(), what=f"nothing left of {run.tree()}")


def test_readiness_line_names_time_url_and_listeners(make: Make) -> None:
    run = make().start()
    line = wait_until(lambda: run.output.read_text().splitlines(), what="a line")[0]
    assert line.startswith("ready in ") and " s · http://127.0.0.1:" in line and line.endswith("· 2 listeners")


def test_run_tells_where_the_tokens_are_and_keeps_them(make: Make) -> None:
    run = make()
    first = run.cli("run", str(run.config), "--for", "1s")
    tokens = [(run.data_dir / name).read_text() for name in ("full.token", "read.token")]
    for name, token in zip(("full.token", "read.token"), tokens, strict=True):
        assert str(run.data_dir / name) in first.stderr.replace("\n", "")
        assert token not in first.stdout + first.stderr + run.logs()
    run.cli("run", str(run.config), "--for", "1s")
    assert tokens == [(run.data_dir / name).read_text() for name in ("full.token", "read.token")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_stops_with_exit_0_and_leaves_nothing(make: Make, number: signal.Signals) -> None:
    run = make().start()
    assert run.process is not None
    run.process.send_signal(number)
    assert run.process.wait(12) == 0
    gone(run)
    assert not (run.data_dir / "engine.json").exists()
    assert list((run.data_dir / "run").iterdir()) == []


def test_nohup_keeps_a_run_when_the_terminal_goes(make: Make) -> None:
    run = make()
    run.process = subprocess.Popen(
        ["nohup", GAUSS, "run", str(run.config), "--quiet", "--data-dir", str(run.data_dir)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=run.folder,
    )  # fmt: skip
    run.output.touch()
    run.wait_ready()
    run.process.send_signal(signal.SIGHUP)
    process = run.process
    stays(lambda: process.poll() is None, 1.0)
    run.wait_ready()
    assert run.stop() == 0


@pytest.mark.fault
def test_stopped_engine_does_not_keep_the_run_from_ending(make: Make) -> None:
    run = make().start()
    suspend(run.part("gauss.stream.engine"))
    assert run.process is not None
    run.process.terminate()
    assert run.process.wait(15) == 0
    gone(run)


@pytest.mark.fault
def test_second_signal_ends_at_once(make: Make) -> None:
    run = make().start()
    suspend(run.part("gauss.stream.engine"))
    assert run.process is not None
    run.process.terminate()
    wait_until(lambda: "press Ctrl-C again to force" in run.output.read_text(), what="the first one is heard")
    run.process.terminate()
    assert run.process.wait(4) == 0
    gone(run)


@pytest.mark.fault
def test_kill_9_leaves_nothing_and_a_second_run_works_at_once(make: Make) -> None:
    run = make().start()
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    assert "is gone" in run.cli("topics", check=False).stderr
    run.start()
    assert run.topic("quotes.raw")["end"] == 0
    assert run.stop() == 0
    gone(run)


@pytest.mark.fault
def test_kill_9_of_control_and_guard_is_mended_by_the_next_run(make: Make) -> None:
    run = make().start()
    assert run.process is not None
    (guard,) = run.named("guard.py")
    suspend(guard)  # so that it does not notice the end of control before it is killed
    run.process.kill()
    guard.kill()
    run.process.wait()
    assert run.named("gauss.stream.engine")
    run.start()
    assert len(run.named("guard.py")) == 1
    assert run.stop() == 0
    gone(run)


def test_engine_that_dies_is_started_again_and_listens_again(make: Make) -> None:
    run = make().start()
    run.kill("gauss.stream.engine")
    wait_until(lambda: run.api("/api/health")["processes"][0]["restarts"] == 1, what="a restart")
    run.wait_ready()
    ports = [int(part.split(",")[0]) for part in run.config.read_text().split("port = ")[1:]]
    collector = Collector(ports[1])
    send(ports[0], b"again\n")
    assert collector.wait(1) == [b"again"]
    collector.close()


def test_second_run_on_the_same_directory_is_refused_with_the_pid(make: Make) -> None:
    run = make().start()
    assert run.process is not None
    done = run.cli("run", str(run.config), check=False)
    assert done.returncode == 1
    said = done.stderr
    assert (
        "already running" in said and f"pid {run.process.pid}, since " in said and run.api("/api/health")["url"] in said
    )


def test_taken_port_is_one_sentence(make: Make) -> None:
    first, second = make().start(), make()
    second.config.write_text(first.config.read_text())
    done = second.cli("run", str(second.config), check=False)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "in use" in done.stderr
    assert "in use" in done.stderr.partition("stopped in")[0]  # the reason is printed before the final line
    gone(second)


def test_second_run_with_a_fixed_api_port_is_told_of_the_first_run_not_of_the_port(make: Make) -> None:
    run = make()
    run.config.write_text(f"[api]\nport = {free_port()}\n" + run.config.read_text())
    run.start()
    done = run.cli("run", str(run.config), check=False)
    assert done.returncode == 1 and "already running" in done.stderr and "api.port" not in done.stderr


def test_taken_api_port_leaves_the_data_directory_free(make: Make) -> None:
    first, second = make(), make()
    first.config.write_text(f"[api]\nport = {free_port()}\n" + first.config.read_text())
    first.start()
    free, api = second.config.read_text(), first.config.read_text().partition("[[topics]]")[0]
    second.config.write_text(api + free)
    done = second.cli("run", str(second.config), check=False)
    assert done.returncode == 1 and "api.port" in done.stderr
    second.config.write_text(free)
    second.start()


@pytest.mark.fault
def test_stop_names_what_did_not_end_in_time(make: Make) -> None:
    run = make().start()
    engine = run.part("gauss.stream.engine")
    suspend(engine)
    assert run.stop(120) == 0
    named = f"engine (gauss.stream.engine pid {engine.pid})"
    assert f"killed after 10 s without stopping: {named}" in " ".join(run.output.read_text().split())
    assert named in (run.data_dir / "logs" / "control.log").read_text()
    gone(run)


def test_config_with_faults_starts_nothing(make: Make) -> None:
    run = make()
    run.config.write_text(run.config.read_text().replace("tcp-sink", "tcp-sing"))
    done = run.cli("run", str(run.config), check=False)
    assert done.returncode == 1 and "tcp-sing" in done.stderr
    assert not run.data_dir.exists()


def test_run_for_a_time_stops_by_itself_and_json_gives_a_status_per_second(make: Make) -> None:
    run = make()
    done = run.cli("run", str(run.config), "--json", "--for", "5s")  # each status may take two seconds longer
    statuses = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(statuses) >= 2
    assert {topic["name"] for topic in statuses[-1]["topics"]} >= {"quotes.raw"}
    assert "ready" in {status["status"] for status in statuses}
    gone(run)


@pytest.mark.fault
def test_view_is_drawn_on_a_terminal_and_all_ends_when_the_terminal_goes(make: Make) -> None:
    run = make()
    terminal, inner = pty.openpty()
    run.process = subprocess.Popen(
        ["setsid", "--ctty", GAUSS, "run", str(run.config), "--data-dir", str(run.data_dir)],
        stdin=inner, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(inner)
    seen = b""
    deadline = time.monotonic() + 60
    while b"market-feed" not in seen and time.monotonic() < deadline:
        seen += os.read(terminal, 65536)
    assert b"quotes.raw" in seen and b"ready in" in seen
    os.close(terminal)
    run.process.wait(15)
    gone(run)


def test_a_trouble_that_lasts_is_told_once_and_its_end_too(capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(CommandOutput(), steps=False)
    for second in range(16, 20):
        log.health({"status": "degraded", "reasons": [f"driver: no report for {second} s"]})
    log.health({"status": "ready", "reasons": []})
    assert capsys.readouterr().err.splitlines() == ["degraded: driver: no report for 16 s", "ready"]


def test_without_a_terminal_every_step_is_a_line_with_its_time(make: Make) -> None:
    run = make()
    done = run.cli("run", str(run.config), "--for", "1s")
    steps = done.stderr.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in [*steps, *done.stdout.splitlines()])
    said = [line[20:] for line in steps]
    assert said[0] == f"checking {run.config}"
    assert said[1].startswith(f"starting engine; data in {run.data_dir}, API at http://127.0.0.1:")
    assert said[2].startswith("the engine (sockets and topics) is ready")
    assert said[-1].startswith("stopped in ")
    assert done.stdout[20:].startswith("ready in ")


def test_a_long_start_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gauss.cli.run_log.WAIT_SECONDS", 0.0)
    log = RunLog(CommandOutput(), steps=True)
    child = SimpleNamespace(spec=SimpleNamespace(name="driver"), state="starting", detail="")
    log.waiting(SimpleNamespace(children=[child]))  # type: ignore[arg-type]
    child.state = "ready"
    log.waiting(SimpleNamespace(children=[child]))  # type: ignore[arg-type]
    assert [line[20:] for line in capsys.readouterr().err.splitlines()][:2] == ["waiting for Spark", "Spark is ready"]
