"""Every command that inspects a run, against a real run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.feeds import send
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[topics]]
name = "quotes.raw"
storage = "memory"
[[topics]]
name = "quotes.copy"
storage = "memory"
[[topics]]
name = "other"
storage = "memory"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = {{ topic = "other" }}
config = {{ port = {feed}, max_record_bytes = 100, input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "copy"
plugin = "passthrough"
source = {{ topic = "quotes.raw", read = "offset" }}
target = {{ topic = "quotes.copy" }}
"""


@pytest.fixture(scope="module")
def feed() -> int:
    return free_port()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, feed: int) -> Iterator[Run]:
    started = Run(tmp_path_factory.mktemp("commands"), PIPELINE.format(feed=feed)).start()
    yield started
    started.end()


def as_json(run: Run, *args: str) -> Any:
    return json.loads(run.cli(*args, "--json").stdout)


def test_send_from_stdin_and_query_give_the_same_lines(run: Run) -> None:
    sent = run.cli("send", "quotes.raw", text='{"bid": 1}\n{"bid": 200}\n')
    assert sent.stdout.startswith("sent 2 records")
    records = [json.loads(line) for line in run.cli("query", "quotes.raw", "--json").stdout.splitlines()]
    assert [record["data"] for record in records[-2:]] == ['{"bid": 1}', '{"bid": 200}']


def test_send_a_file_in_several_requests_keeps_count_and_order(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    file.write_text("".join(f"{n:0100}\n" for n in range(30_000)))
    assert as_json(run, "send", "quotes.copy", str(file))["accepted"] == 30_000
    lines = run.cli("query", "quotes.copy", "--json").stdout.splitlines()
    assert [int(json.loads(line)["data"]) for line in lines[-30_000:]] == list(range(30_000))


def test_send_to_an_address_is_plain_tcp(run: Run, feed: int, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"by socket\n")
    assert as_json(run, "send", f"127.0.0.1:{feed}", str(file))["bytes"] == 10
    wait_until(lambda: "by socket" in run.cli("query", "other", "-n", "1000").stdout, what="the record")


def test_send_to_a_closed_port_is_a_sentence(run: Run) -> None:
    done = run.cli("send", f"127.0.0.1:{free_port()}", text="x\n", check=False)
    assert done.returncode == 4 and "can't be reached" in done.stderr


def test_query_takes_a_relative_time_and_a_limit(run: Run) -> None:
    run.cli("send", "other", text="a\nb\nc\n")
    lines = run.cli("query", "other", "--from", "-1m", "--limit", "2").stdout.splitlines()
    assert len(lines) == 2
    assert run.cli("query", "other", "--to", "-1h").stdout == ""


def test_tap_with_glob_where_meta_and_limit(run: Run) -> None:
    args = [GAUSS, "tap", "quotes.*", "--meta", "--where", ".bid > 100", "--limit", "2", "--for", "120s"]
    tap = subprocess.Popen(
        [*args, "--data-dir", str(run.data_dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert tap.stderr is not None and "tapping quotes.copy, quotes.raw" in tap.stderr.readline()

    def both() -> bool:
        run.cli("send", "quotes.raw", text='{"bid": 50}\n{"bid": 150}\nnot json\n')
        return tap.poll() is not None

    wait_until(both, what="the tap has its two records")
    assert tap.stdout is not None
    records = [json.loads(line) for line in tap.stdout]
    assert {record["topic"] for record in records} <= {"quotes.raw", "quotes.copy"}
    assert [record["data"] for record in records] == ['{"bid": 150}'] * 2
    assert tap.returncode == 0


def test_tap_ends_after_its_time(run: Run) -> None:
    assert run.cli("tap", "other", "--for", "300ms").stdout == ""


def test_tap_of_nothing_lists_what_there_is(run: Run) -> None:
    done = run.cli("tap", "qoutes.*", check=False)
    assert done.returncode == 3 and "other, quotes.copy, quotes.raw" in done.stderr


@pytest.mark.fault
def test_tap_goes_on_when_the_engine_is_back(run: Run) -> None:
    tap = subprocess.Popen(
        [GAUSS, "tap", "other", "--data-dir", str(run.data_dir), "--for", "180s"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert tap.stderr is not None and tap.stdout is not None
    tap.stderr.readline()
    # From now on it knows the incarnation of the topic, and reads a new one from the beginning.
    wait_until(lambda: [scan for scan in run.api("/api/scans")["scans"] if scan["topic"] == "other"], what="it follows")
    run.kill("gauss.stream.engine")
    wait_until(lambda: run.api("/api/health")["processes"][0]["restarts"] >= 1, what="a restart")
    run.wait_ready()
    run.cli("send", "other", text="after\n")
    assert tap.stdout.readline() == "after\n"
    tap.terminate()
    tap.wait(60)


def test_topics_shows_all_or_one(run: Run) -> None:
    assert [topic["name"] for topic in as_json(run, "topics")["topics"]] == ["other", "quotes.copy", "quotes.raw"]
    assert "_dead" in run.cli("topics", "--all").stdout
    shown = run.cli("topics", "quotes.raw").stdout
    assert "storage  memory" in shown and "copy" in shown


def test_unknown_topic_is_named(run: Run) -> None:
    done = run.cli("topics", "qoutes.raw", check=False)
    assert done.returncode == 3 and "qoutes.raw" in done.stderr
    as_data = json.loads(run.cli("topics", "qoutes.raw", "--json", check=False).stdout)
    assert as_data["error"]["code"] == "not_found"


def test_readers_are_listed_moved_and_kept_when_asked_wrongly(run: Run) -> None:
    readers = as_json(run, "readers", "ls")["readers"]
    assert ("quotes.raw", "copy") in [(reader["topic"], reader["name"]) for reader in readers]
    assert "is now at offset" in run.cli("readers", "seek", "quotes.raw", "copy", "-1").stdout
    assert run.cli("readers", "drop", "quotes.raw", "nobody", check=False).returncode == 3


def test_processors_are_listed(run: Run) -> None:
    rows = {row["name"]: row["state"] for row in as_json(run, "processors", "ls")["processors"]}
    assert rows == {"feed": "running", "copy": "running"}
    assert run.cli("processors", "retry", "nobody", check=False).returncode == 3


def test_top_once_shows_totals_with_rates(run: Run) -> None:
    text = wait_until(
        lambda: "/s)" in (said := run.cli("top", "--once").stdout) and said, what="the first look, after a second"
    )
    assert "quotes.raw" in text and "feed" in text
    wait_until(lambda: as_json(run, "top", "--once")["status"] == "ready", what="ready")
    assert run.cli("top", "--sort", "luck", check=False).returncode == 1


def test_dead_letters_are_listed_shown_and_refused_for_replay_at_an_edge(run: Run, feed: int) -> None:
    assert run.cli("dlq", "replay", check=False).returncode == 1
    send(feed, b"x" * 500 + b"\n")
    wait_until(lambda: as_json(run, "dlq", "ls")["total"] >= 1, what="a dead letter")
    assert "too_long" in run.cli("dlq", "ls").stdout
    shown = run.cli("dlq", "show", "--reason", "too_long", "-n", "1").stdout
    assert "feed" in shown and "xxx" in shown
    refused = run.cli("dlq", "replay", "--processor", "feed", check=False)
    assert refused.returncode == 1 and "cannot be replayed" in refused.stderr
    everything = as_json(run, "dlq", "replay", "--all")
    assert everything["replayed"] == 0 and everything["refused"] >= 1 and everything["refused_hint"]
    assert as_json(run, "dlq", "replay", "--reason", "bad_json")["refused"] == 0


def test_no_run_is_a_sentence_and_exit_code_4(tmp_path: Path) -> None:
    done = subprocess.run([GAUSS, "topics", "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "nothing runs" in done.stderr and "gauss run FILE" in done.stderr


@pytest.mark.parametrize("name", ["run", "top", "tap", "topics", "readers", "processors", "query", "send", "dlq"])
def test_help_gives_an_example(name: str) -> None:
    text = subprocess.run([GAUSS, name, "--help"], capture_output=True, text=True, check=True).stdout
    subcommands = {"readers": "seek", "processors": "retry", "dlq": "show"}
    if name in subcommands:
        text = subprocess.run(
            [GAUSS, name, subcommands[name], "--help"], capture_output=True, text=True, check=True
        ).stdout
    assert f"gauss {name}" in text.replace("\n", " ") and "Example" in text


def test_commands_do_not_import_pyarrow_or_a_web_framework() -> None:
    program = (
        "import sys, importlib\n"
        "for name in 'top tap topics readers processors query send dlq'.split():\n"
        "    importlib.import_module('gauss.cli.' + name)\n"
        "print([m for m in ('pyarrow', 'numpy', 'fastapi', 'pyspark', 'lark') if m in sys.modules])"
    )
    python = str(Path(GAUSS).with_name("python"))
    assert subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
