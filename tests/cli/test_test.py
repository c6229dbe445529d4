"""`gauss test` on a real engine: its output, and that any wrong row fails a case."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from helpers.run import GAUSS

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

PIPELINE = """
[[topics]]
name = "in"
storage = "file"

[[topics]]
name = "out"
storage = "file"

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "in" }
config = { port = 1, input = { framing = "newline", delimiter = "\\n" } }

[[processors]]
name = "cut"
plugin = "reframe"
source = { topic = "in", read = "offset" }
target = { topic = "out" }
config = { output = { framing = "fixed_size", frame_size = 2 } }
"""

TESTS = """
[[cases]]
name = "right"
steps = [{ send = "feed", records = ["abcd"] }, { restart = "engine" }, { send = "in", records = ["ef"] }]
expect = [{ topic = "out", ordered = true, records = ["ab", "cd", "ef"] }, { topic = "in", count = 2 }]

[[cases]]
name = "in another order"
steps = [{ send = "in", records = ["abcd"] }]
expect = [{ topic = "out", ordered = true, records = ["cd", "ab"] }]

[[cases]]
name = "one too many"
steps = [{ send = "in", records = ["abcd"] }]
expect = [{ topic = "out", records = ["ab"] }]

[[cases]]
name = "one missing"
steps = [{ send = "in", records = ["ab"] }]
expect = [{ topic = "out", records = ["ab", "ab"] }]

[[cases]]
name = "a dead letter that nobody expects"
steps = [{ send = "in", records = ["abc"] }]
expect = [{ topic = "out", records = ["ab"] }]

[[cases]]
name = "fewer dead letters than expected"
steps = [{ send = "in", records = ["abc", "ab"] }]
expect = [{ topic = "out", count = 2 }]
dead_letters = [{ processor = "cut", count = 2 }]

[[cases]]
name = "dead letters as expected"
steps = [{ send = "in", records = ["a", "b", "ab"] }]
expect = [{ topic = "out", count = 1 }]
dead_letters = [{ processor = "cut", count = 2 }]
"""


def gauss_test(*args: str | Path, code: int, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [GAUSS, "test", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("flow")
    (made / "pipeline.toml").write_text(PIPELINE)
    (made / "pipeline.test.toml").write_text(TESTS)
    return made


def test_every_case_with_a_wrong_row_fails_and_says_which(folder: Path, tmp_path: Path) -> None:
    done = gauss_test(folder, "--junit", folder / "junit.xml", code=1, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    text = done.stdout
    assert [line.partition(" (")[0] for line in text.splitlines() if line.startswith("test ")] == [
        "test right … passed",
        "test in another order … failed",
        "test one too many … failed",
        "test one missing … failed",
        "test a dead letter that nobody expects … failed",
        "test fewer dead letters than expected … failed",
        "test dead letters as expected … passed",
    ]
    for words in (
        "row 1 differs: found ab\n      expected cd",
        "unexpected: cd",
        "row 2 is missing: ab",
        "unexpected: truncated at cut",
        "expected 2 of cut, found 1",
    ):
        assert words in text, (words, text)
    assert text.splitlines()[-1].startswith("2 passed, 5 failed in ")
    suite = ElementTree.parse(folder / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("7", "5")


def test_one_case_alone_is_told_as_json(folder: Path) -> None:
    told: dict[str, Any] = json.loads(gauss_test(folder, "--case", "one too many", "--json", code=1).stdout)
    (case,) = told["cases"]
    assert (told["passed"], told["failed"], case["status"]) == (0, 1, "failed")
    assert case["problems"] == [{"where": "topic out", "lines": ["unexpected: cd"]}]
    error = json.loads(gauss_test(folder, "--case", "one to many", "--json", code=1).stdout)["error"]
    assert error["code"] == "config"


OWN = """
import sys

from gauss.contracts.function import arrow_function

if "flowtest" in sys.argv[0]:
    raise RuntimeError("no licence for this process")


@arrow_function()
def own(batch):
    return batch
"""
ON_SPARK = """
[[topics]]
name = "in"
storage = "memory"

[[topics]]
name = "out"
storage = "memory"

[[processors]]
name = "own"
plugin = "own:own"
source = { topic = "in", read = "offset" }
target = { topic = "out" }
"""


@pytest.mark.spark
def test_case_that_the_driver_can_not_set_up_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "pipeline.toml").write_text(ON_SPARK)
    (tmp_path / "pipeline.test.toml").write_text('[[cases]]\nname = "never"\nexpect = [{ topic = "out", count = 1 }]\n')
    told = json.loads(gauss_test(tmp_path, "--json", code=1).stdout)
    (problem,) = told["cases"][0]["problems"]
    assert "no licence for this process" in problem["where"], problem


STEPS = """
import pyarrow as pa

from gauss.contracts.function import arrow_function

seen = set()


@arrow_function()
def first(batch):
    seen.update(batch.column("n").to_pylist())
    return batch


@arrow_function()
def last(batch):
    return batch.append_column("together", pa.array([n in seen for n in batch.column("n").to_pylist()]))
"""
CHAIN = """
[[formats]]
name = "number"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[topics]]
name = "in"
storage = "memory"

[[topics]]
name = "numbers"
storage = "memory"

[[topics]]
name = "small"
storage = "memory"

[[topics]]
name = "out"
storage = "memory"

[[processors]]
name = "first"
plugin = "steps:first"
source = { topic = "in", read = "offset" }
target = { topic = "numbers" }
config = { input = { format = "number" } }

[[processors]]
name = "below-3"
plugin = "filter"
source = { topic = "numbers", read = "offset" }
target = { topic = "small" }
config = { input = { format = "number" }, where = ".n < 3" }

[[processors]]
name = "last"
plugin = "steps:last"
source = { topic = "small", read = "offset" }
target = { topic = "out" }
config = { input = { format = "number" }, output = { format = "json" } }
"""
CHAIN_TESTS = """
[[cases]]
name = "chain"
steps = [
  { send = "in", records = ['{"n": 1}', "bad", '{"n": 2}', '{"n": 3}'] },
  { restart = "driver" },
  { send = "in", records = ['{"n": 0}'] },
]
dead_letters = [{ processor = "first", count = 1 }]

[[cases.expect]]
topic = "out"
format = "json"
ordered = true
records = [{ n = 1, together = true }, { n = 2, together = true }, { n = 0, together = true }]

[[cases.expect]]
topic = "numbers"
count = 4
"""


@pytest.mark.spark
def test_chain_runs_in_one_task_as_in_a_run(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "pipeline.toml").write_text(CHAIN)
    (tmp_path / "pipeline.test.toml").write_text(CHAIN_TESTS)
    told = json.loads(gauss_test(tmp_path, "--json", code=0).stdout)
    assert told["passed"] == 1
