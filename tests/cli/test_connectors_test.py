"""`gauss connectors test`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.sync_connectors import CONNECTORS

Gauss = Callable[..., "subprocess.CompletedProcess[str]"]
WRONG = """
from sample import Numbers


class TwiceClosed(Numbers):
    def close(self):
        if hasattr(self, "closed"):
            raise ValueError("closed already")
        self.closed = True
"""


@pytest.fixture(autouse=True)
def connectors(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(CONNECTORS)
    (tmp_path / "wrong.py").write_text(WRONG)


def settings(folder: Path) -> tuple[str, ...]:
    return "--set", "rows=35", "--set", f"folder={folder}", "--kills", "0"


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_connector_that_passes_prints_a_table_and_exits_with_0(gauss: Gauss, tmp_path: Path) -> None:
    done = gauss(
        "connectors", "test", "sample:Numbers", *settings(tmp_path), "--case", "lifecycle.", "--case", "read.twice"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lifecycle.close_twice" in done.stdout and "read.twice" in done.stdout
    assert "source: 10 passed (seed 1)" in done.stdout


def test_a_connector_that_fails_a_case_exits_with_3_and_says_what_was_found(gauss: Gauss, tmp_path: Path) -> None:
    done = gauss("connectors", "test", "wrong:TwiceClosed", *settings(tmp_path), "--case", "lifecycle.")
    assert done.returncode == 3
    line = next(line for line in done.stdout.splitlines() if "lifecycle.close_twice" in line)
    assert "failed" in line and "expected: close can be called again." in line
    assert "the second close raised ValueError: closed already" in line


def test_json_has_an_object_for_each_case_and_a_result(gauss: Gauss, tmp_path: Path) -> None:
    done = gauss("connectors", "test", "wrong:TwiceClosed", *settings(tmp_path), "--case", "lifecycle.", "--json")
    found = events(done.stdout)
    assert done.returncode == 3 and found[-1]["event"] == "result" and found[-1]["status"] == "failed"
    one = next(each for each in found if each.get("case") == "lifecycle.close_twice")
    assert (one["role"], one["status"], one["expected"]) == ("source", "failed", "close can be called again.")


def test_settings_of_a_file_are_used_with_secrets_from_the_environment(gauss: Gauss, tmp_path: Path) -> None:
    (tmp_path / "kit.toml").write_text(
        f'streams = ["b"]\nkills = 0\n[source]\nrows = 35\nfolder = "{tmp_path}"\npassword = "${{PW}}"\n'
    )
    call = ("connectors", "test", "sample:Numbers", "--config", "kit.toml", "--case", "read.full_refresh", "--json")
    done = gauss(*call, PW="hunter2hunter2")
    assert done.returncode == 0 and events(done.stdout)[-1]["passed"] == 1, done.stdout
    assert (tmp_path / "b.reads").exists() and "hunter2hunter2" not in done.stdout
    missing = gauss(*call)
    assert missing.returncode == 1 and "PW is not set" in missing.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), 'no connector "nowhere"'),
        (("sample:Numbers", "--role", "destination"), '"sample:Numbers" is no destination'),
        (("sample:Nothing",), "has no Nothing"),
        (("missing.wasm",), "does not exist"),
        (("sample:Numbers", "--case", "read.twise"), 'did you mean "read.twice"'),
        (("sample:Numbers", "--set", "rows"), "expected key=value"),
        (
            ("postgres", "--set", "port=abc", "--case", "spec."),
            "source postgres: port: Input should be a valid integer",
        ),
        (("sample:Numbers", "--config", "nowhere.toml"), "nowhere.toml"),
    ],
    ids=["name", "role", "class", "module", "case", "setting", "value", "file"],
)
def test_what_can_not_be_tested_exits_with_1_and_a_reason(gauss: Gauss, arguments: tuple[str, ...], words: str) -> None:
    done = gauss("connectors", "test", *arguments)
    assert done.returncode == 1 and words in done.stderr, done.stderr
