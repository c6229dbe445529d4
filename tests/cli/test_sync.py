"""`gauss sync` and `gauss syncs` with connectors in a file beside the config."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gauss.connect.state import StateStore, StreamCursor
from gauss.contracts.connector.cursor import Int64Cursor
from gauss.model.paths import DataDir
from helpers.connectors import module
from helpers.run import GAUSS
from helpers.sync_connectors import CONNECTORS
from helpers.waiting import wait_until

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]
Write = Callable[..., None]
CONFIG = """
[[syncs]]
name = "numbers"
source = {{ connector = "sample:Numbers", rows = {rows}, folder = "{folder}", pause = {pause} }}
destination = {{ connector = "sample:Lines", folder = "{folder}", {more} }}
streams = [{{ name = "a", mode = "incremental", cursor = "n" }}]
{last}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "sample.py").write_text(CONNECTORS)

    def make(rows: int = 35, pause: float = 0, more: str = "", last: str = "") -> None:
        text = CONFIG.format(rows=rows, folder=tmp_path, pause=pause, more=more, last=last)
        (tmp_path / "gauss.toml").write_text(text)

    make()
    return make


def lines(folder: Path) -> list[int]:
    path = folder / "a.txt"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_program_stands_between_source_and_destination(gauss: Gauss, write: Write, tmp_path: Path) -> None:
    write()
    config = tmp_path / "gauss.toml"
    stream = 'cursor = "n"'
    config.write_text(config.read_text().replace(stream, stream + ', transform = { program = "select(.n % 5 == 0)" }'))
    assert gauss("sync", "--local").returncode == 0
    assert lines(tmp_path) == [5, 10, 15, 20, 25, 30, 35]
    config.write_text(config.read_text().replace(".n % 5", ".m % 5"))
    failed = gauss("sync")
    assert failed.returncode == 3 and 'no field "m"' in failed.stderr


@pytest.mark.usefixtures("write")
def test_a_sync_moves_its_streams_and_prints_a_summary(gauss: Gauss, tmp_path: Path) -> None:
    done = gauss("sync")
    assert done.returncode == 0, done.stderr
    assert "numbers: succeeded, 1 stream" in done.stdout and "a: succeeded, 35 rows written" in done.stderr
    assert lines(tmp_path) == list(range(1, 36))
    again = gauss("sync", ".", "numbers")
    assert again.returncode == 0 and lines(tmp_path) == list(range(1, 36))


@pytest.mark.usefixtures("write")
def test_json_is_one_object_a_line_from_start_to_result(gauss: Gauss) -> None:
    done = gauss("sync", "--json")
    found = events(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert [found[0]["event"], found[-2]["event"], found[-1]["event"]] == ["start", "stream", "result"]
    assert {"records_read", "records_written", "checkpoint_count", "perf"} <= found[-2].keys()
    assert found[-1] == {
        "event": "result",
        "sync": "numbers",
        "status": "succeeded",
        "streams": [{"stream": "a", "status": "succeeded"}],
    }
    assert {"event": "checkpoint", "stream": "a", "id": 4} in found
    retries = {"connector": "host", "name": "retries", "kind": "counter", "value": 0}
    assert found[-3] == {"event": "metrics", "stream": "a", "metrics": [retries]}


def test_a_failed_sync_exits_with_3_and_names_the_cause(gauss: Gauss, write: Write, tmp_path: Path) -> None:
    write(more='fails = "auth"')
    (tmp_path / "fail").write_text("9")
    done = gauss("sync")
    assert done.returncode == 3 and "the disk is away" in done.stderr and "numbers: failed" in done.stdout
    (tmp_path / "fail").write_text("9")
    found = events(gauss("sync", "--json").stdout)
    assert [each["event"] for each in found[-2:]] == ["error", "result"]
    assert found[-2]["error"]["category"] == "auth" and found[-1]["status"] == "failed"


def test_dead_letters_are_no_failure(gauss: Gauss, write: Write, tmp_path: Path) -> None:
    write(more="bad = [7]", last='policies = { on_data_error = "dlq" }')
    done = gauss("sync")
    assert done.returncode == 0
    assert len(lines(tmp_path)) == 34
    [letter] = (tmp_path / ".gauss" / "connect" / "letters" / "numbers.jsonl").read_text().splitlines()
    assert json.loads(letter)["row"] == {"n": 7}


def test_a_deadline_and_an_unknown_sync_have_their_codes(gauss: Gauss, write: Write) -> None:
    write(rows=100_000, pause=0.01, last='deadline = "500ms"')
    late = gauss("sync")
    assert late.returncode == 3 and "not finished within 0.5 s" in late.stderr
    unknown = gauss("sync", ".", "nobody")
    assert unknown.returncode == 1 and "syncs of this pipeline: numbers" in unknown.stderr


@pytest.mark.usefixtures("write")
def test_runs_and_cursors_are_listed_set_and_reset(gauss: Gauss, tmp_path: Path) -> None:
    assert "never" in gauss("syncs", "ls").stdout
    gauss("sync")
    assert "succeeded" in gauss("syncs", "ls").stdout
    cursors = json.loads(gauss("syncs", "state", "get", "numbers", "--json").stdout)
    assert cursors["streams"][0]["cursor"] == {"int64": 35}
    assert gauss("syncs", "state", "set", "numbers", "a", '{"int64": 30}').returncode == 0
    gauss("sync")
    assert lines(tmp_path) == [*range(1, 36), *range(31, 36)]
    assert gauss("syncs", "state", "reset", "numbers", "a").returncode == 0
    gauss("sync")
    assert len(lines(tmp_path)) == 75
    runs = json.loads(gauss("syncs", "history", "numbers", "--json").stdout)["runs"]
    assert [run["status"] for run in runs] == ["succeeded", "edited", "succeeded", "edited", "succeeded"]
    bad = gauss("syncs", "state", "set", "numbers", "a", '{"int65": 30}')
    assert bad.returncode == 1 and "expected one of null, int64" in bad.stderr


@pytest.mark.usefixtures("write")
def test_a_cursor_is_set_of_a_stream_that_has_one_only(gauss: Gauss) -> None:
    refused = gauss("syncs", "state", "set", "numbers", "aa", '{"int64": 30}')
    assert refused.returncode == 3 and 'no stream "aa" with a cursor' in refused.stderr
    assert "with one: a" in refused.stderr


@pytest.mark.usefixtures("write")
def test_a_cursor_can_be_set_after_the_state_of_the_sync_was_lost(gauss: Gauss, tmp_path: Path) -> None:
    store = StateStore(tmp_path / ".gauss" / "connect" / "state.db")
    store.move("numbers", "a", StreamCursor(1 << 40, Int64Cursor(35), 4, 0), "numbers#1")
    assert gauss("syncs", "state", "set", "numbers", "a", '{"int64": 30}').returncode == 0
    found = store.cursor("numbers", "a")
    assert found is not None and found.generation > 1 << 40 and found.value == Int64Cursor(30)
    store.close()


def test_secrets_in_errors_are_hidden_wherever_they_are_printed(gauss: Gauss, write: Write, tmp_path: Path) -> None:
    write(more='password = "hunter22"', last="max_attempts = 1")
    sample = tmp_path / "sample.py"
    sample.write_text(
        sample.read_text()
        .replace('"the disk is away"', '"hunter22 is wrong"')
        .replace("    def close(self):\n        pass", '    def close(self):\n        raise OSError("hunter22")')
    )
    (tmp_path / "fail").write_text("9")
    done = gauss("sync")
    assert done.returncode == 3 and "*** is wrong" in done.stderr
    assert "close failed: ***" in done.stderr and "hunter22" not in done.stdout + done.stderr
    for arguments in (["history", "numbers"], ["ls", "--json"]):
        shown = gauss("syncs", *arguments)
        assert "*** is wrong" in shown.stdout and "hunter22" not in shown.stdout
    stored = b"".join(each.read_bytes() for each in (tmp_path / ".gauss" / "connect").glob("state.db*"))
    assert b"*** is wrong" in stored and b"hunter22" not in stored


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_state_that_can_not_be_reached_is_a_failure_and_a_wrong_address_of_it_a_config_error(
    gauss: Gauss, write: Write, arguments: list[str]
) -> None:
    write(last='state = "postgresql://u:p@127.0.0.1:1/none"')
    gone = gauss("sync", *arguments)
    assert gone.returncode == 3 and "state store does not answer" in gone.stdout + gone.stderr
    write(last='state = "mysql://x"')
    wrong = gauss("sync", *arguments)
    assert wrong.returncode == 1 and "expected postgresql://" in wrong.stdout + wrong.stderr
    if arguments:
        assert [each["event"] for each in events(wrong.stdout)] == ["error", "result"]


def test_an_interrupt_starts_no_other_sync(write: Write, tmp_path: Path) -> None:
    write(rows=100_000, pause=0.01)
    config = tmp_path / "gauss.toml"
    config.write_text(config.read_text() + config.read_text().replace('"numbers"', '"others"').replace('"a"', '"b"'))
    with subprocess.Popen([GAUSS, "sync", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        wait_until(lambda: len(lines(tmp_path)) > 50)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert [each["sync"] for each in events(out) if each["event"] in ("start", "result")] == ["numbers", "numbers"]


def test_a_second_interrupt_ends_a_module_that_loops_while_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "endless.wasm").write_bytes(module(bodies={"rb_discover": "(loop (br 0)) unreachable"}))
    (tmp_path / "gauss.toml").write_text(
        """
        [[syncs]]
        name = "endless"
        source = { connector = "endless.wasm" }
        destination = { connector = "file", path = "out", format = "csv" }
        """
    )
    with subprocess.Popen([GAUSS, "sync", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["event"] == "start"
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)  # two signals at once are one
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 3 and [each["event"] for each in events(out)] == ["error", "result"]


@pytest.mark.usefixtures("write")
def test_a_dry_run_changes_nothing(gauss: Gauss, tmp_path: Path) -> None:
    done = gauss("sync", "--dry-run")
    assert done.returncode == 0 and "a: incremental, append" in done.stdout
    assert lines(tmp_path) == [] and not (tmp_path / ".gauss").exists()


@pytest.mark.parametrize("arguments", [[], ["--json"]])
@pytest.mark.parametrize("broken", ["cluster", "process"])
def test_a_dry_run_whose_embedded_server_does_not_start_is_a_failure(
    gauss: Gauss, tmp_path: Path, arguments: list[str], broken: str
) -> None:
    text = CONFIG.format(rows=1, folder=tmp_path, pause=0, more="", last="")
    (tmp_path / "sample.py").write_text(CONNECTORS)
    config = tmp_path / "gauss.toml"
    config.write_text(text.replace(f'"sample:Lines", folder = "{tmp_path}", ', '"postgres"'))
    server = DataDir(tmp_path / ".gauss").server("postgres")
    (server / "cluster").mkdir(parents=True)
    (server / "cluster" / "PG_VERSION").write_text("9")
    wrong = {"PYTHONHOME": str(tmp_path)} if broken == "process" else {}
    done = gauss("sync", "--dry-run", *arguments, **wrong)
    assert done.returncode == 3, done
    said = " ".join((done.stdout + done.stderr).split())
    assert "the embedded postgres in" in said and "owner.log" in said
    if arguments:
        assert [each["event"] for each in events(done.stdout)] == ["error", "result"]


def test_the_first_interrupt_drains_and_the_next_run_goes_on(write: Write, tmp_path: Path) -> None:
    write(rows=100_000, pause=0.01)
    command = [GAUSS, "sync", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        wait_until(lambda: len(lines(tmp_path)) > 50)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0 and events(out)[-1]["status"] == "cancelled"
    write(rows=len(lines(tmp_path)) + 5)
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert lines(tmp_path) == list(range(1, len(lines(tmp_path)) + 1))


def test_a_killed_sync_is_taken_over_and_a_living_one_is_not(write: Write, tmp_path: Path) -> None:
    write(rows=100_000, pause=0.01)
    with subprocess.Popen([GAUSS, "sync", "--json"], cwd=tmp_path, stdout=subprocess.DEVNULL) as child:
        wait_until(lambda: len(lines(tmp_path)) > 50)
        second = subprocess.run([GAUSS, "sync"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert second.returncode == 3 and f"process {child.pid} on" in second.stderr
        child.kill()
    write(rows=60)
    done = subprocess.run([GAUSS, "sync"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_both_sides_of_a_sync_are_checked_and_its_streams_listed(gauss: Gauss, write: Write) -> None:
    done = gauss("connectors", "check")
    assert done.returncode == 0 and done.stdout.count("success") == 2
    found = json.loads(gauss("connectors", "discover", ".", "numbers", "--json").stdout)
    assert [stream["name"] for stream in found["streams"]] == ["a", "b"]
    assert "full_refresh, incremental" in gauss("connectors", "discover").stdout
    unknown = gauss("connectors", "check", ".", "nobody")
    assert unknown.returncode == 3 and "syncs of this pipeline: numbers" in unknown.stderr
    write(more="refuses = true")
    refused = gauss("connectors", "check")
    assert refused.returncode == 3 and "the password is wrong" in refused.stderr


def test_a_connector_that_is_not_installed_has_no_spec(gauss: Gauss) -> None:
    done = gauss("connectors", "spec", "nothing")
    assert done.returncode == 3 and 'no connector "nothing"' in done.stderr
    assert gauss("connectors", "ls").returncode == 0


def test_modules_beside_the_pipeline_are_connectors(gauss: Gauss, tmp_path: Path) -> None:
    modules = Path(__file__).parents[2] / "sdk" / "modules"
    for name in ("numbers.wasm", "totals.wasm"):
        (tmp_path / name).write_bytes((modules / name).read_bytes())
    (tmp_path / "gauss.toml").write_text(
        """
        [[syncs]]
        name = "sums"
        source = { connector = "numbers.wasm", rows = 2500, batch_rows = 1000 }
        destination = { connector = "totals.wasm" }
        streams = [{ name = "numbers", mode = "incremental", cursor = "n" }]
        """
    )
    found = events(gauss("sync", "--json").stdout)
    assert (found[-1]["status"], found[-2]["records_read"], found[-2]["records_written"]) == ("succeeded", 2500, 2500)
    state = json.loads(gauss("syncs", "state", "get", "sums", "--json").stdout)
    assert state["streams"][0]["cursor"] == {"int64": 2500}
    again = events(gauss("sync", "--json").stdout)
    assert again[-2]["records_read"] == 0
