"""Records with terminal escape sequences are shown harmlessly."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from helpers.feeds import send
from helpers.run import GAUSS, Run, free_port
from helpers.terminal import on_terminal
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

C0 = "".join(chr(number) for number in range(0x20) if number != 0x0A)
C1 = "".join(chr(number) for number in range(0x7F, 0xA0))
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = f"[red]{C0}\x1b]0;owned\x07{C1}{BIDI}[/red]"
FORBIDDEN = re.compile(f"[{re.escape(C0.replace(chr(13), '').replace(chr(9), ''))}{re.escape(C1 + BIDI)}]|\r(?!\n)")

PIPELINE = """
formats = [
    {{ name = "text", plugin = "json", config = {{ fields = [{{ name = "a", type = "string" }}] }} }},
]
topics = [{{ name = "raw", storage = "memory" }}, {{ name = "json", storage = "memory" }}]
processors = [
    {{ name = "feed", plugin = "tcp-source", target = {{ topic = "raw" }},
      config = {{ port = {port}, max_record_bytes = 300, input = {{ framing = "newline", delimiter = "\\n" }} }} }},
]
"""

CASES = """
[[cases]]
name = "differs"
steps = [{{ send = "json", records = [{record}] }}]
expect = [{{ topic = "json", records = ["nothing of the kind"] }}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    port = free_port()
    started = Run(tmp_path_factory.mktemp("hostile"), PIPELINE.format(port=port)).start()
    send(port, HOSTILE.encode() + b"\n" + HOSTILE.encode() * 5 + b"\n")
    started.cli("send", "json", text=json.dumps({"a": HOSTILE, HOSTILE: "name"}) + "\n")
    (started.folder / "pipeline.test.toml").write_text(CASES.format(record=json.dumps(HOSTILE)))
    bad = PIPELINE.format(port=port).replace('name = "feed"', f"name = {json.dumps(HOSTILE)}")
    (started.folder / "bad.toml").write_text(bad.replace('"newline"', json.dumps(HOSTILE)))
    wait_until(lambda: json.loads(started.cli("dlq", "ls", "--json").stdout)["groups"], what="a dead letter")
    yield started
    started.end()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("tap raw --start earliest --limit 1", 0),
        ("tap raw --start earliest --limit 1 --meta", 0),
        ("tap json --start earliest --limit 1 --format text", 0),
        ("tap json --start earliest --limit 1 --json", 0),
        ("query raw", 0),
        ("query raw --json", 0),
        ("query json --format json", 0),
        ("query json --format json --json", 0),
        ("scan json {a} --format text", 0),
        ("scan json {a} --format text --json", 0),
        ("scan json --format json", 0),
        ("scan raw", 0),
        ("scan raw --json", 0),
        ("dlq ls", 0),
        ("dlq show", 0),
        ("dlq show --json", 0),
        ("topics", 0),
        ("topics raw", 0),
        ("topics HOSTILE", 3),
        ("query HOSTILE", 3),
        ("scan raw HOSTILE", 1),
        ("scan raw HOSTILE --json", 1),
        ("readers ls", 0),
        ("readers seek raw HOSTILE end", 3),
        ("processors ls", 0),
        ("processors retry HOSTILE", 3),
        ("top --once", 0),
        ("send HOSTILE pipeline.toml", 3),
        ("check bad.toml --offline", 1),
        ("check bad.toml --offline --json", 1),
        ("graph bad.toml", 1),
        ("explain pipeline.toml HOSTILE", 3),
        ("run bad.toml", 1),
        ("test pipeline.toml", 1),
        ("test bad.toml", 1),
    ],
)
def test_no_command_lets_a_control_character_reach_the_terminal(run: Run, command: str, code: int) -> None:
    words = [HOSTILE.replace("\x00", "") if word == "HOSTILE" else word for word in command.split()]
    takes_dir = words[0] not in ("check", "graph", "explain", "test")
    given = [GAUSS, *words, *(["--data-dir", str(run.data_dir)] if takes_dir else [])]
    ended, written = on_terminal(given, cwd=run.folder)
    text = written.decode()
    assert FORBIDDEN.findall(text) == [], text
    assert ended == code, text
    assert "Traceback" not in text


def test_a_record_on_a_terminal_shows_its_escapes_and_its_brackets(run: Run) -> None:
    _, written = on_terminal([GAUSS, "query", "raw", "--data-dir", str(run.data_dir)], cwd=run.folder)
    assert "[red]" in written.decode() and r"\x1b]0;owned\x07\x7f\x80" in written.decode()


def test_piped_tap_gives_the_bytes_of_the_record(run: Run) -> None:
    command = [GAUSS, "tap", "raw", "--start", "earliest", "--limit", "1", "--data-dir", str(run.data_dir)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert done.stdout == HOSTILE.encode() + b"\n"


def test_json_means_the_same_record(run: Run) -> None:
    [line] = run.cli("query", "raw", "--json").stdout.splitlines()
    assert json.loads(line)["data"] == HOSTILE
    letters = json.loads(run.cli("dlq", "show", "--json").stdout)["letters"]
    assert base64.b64decode(letters[0]["data"]).startswith(HOSTILE.encode()[:20])
