"""The page on connectors, executed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import gauss.cli
import gauss.connect
from gauss.connect.placement import SMALL_ROWS
from helpers.run import GAUSS

PAGE = (Path(__file__).parents[2] / "docs" / "connectors.md").read_text()


def test_the_connectors_of_the_page_run_and_go_on_where_they_ended(tmp_path: Path) -> None:
    config, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "gauss.toml").write_text(config)
    (tmp_path / "people.py").write_text(code)

    def run(*arguments: str) -> str:
        done = subprocess.run([GAUSS, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    [commands] = re.findall(r"```\n(gauss check.*?)```", PAGE, re.DOTALL)
    for line in commands.splitlines():
        run(*line.partition("#")[0].split()[1:])
    (tmp_path / "gauss.toml").write_text(config.replace("rows = 1000", "rows = 1050"))
    run("sync")
    assert (tmp_path / "people.txt").read_text().split("\n")[:-1] == [f"person {n}" for n in range(1, 1051)]
    state = json.loads(run("syncs", "state", "get", "people", "--json"))
    assert state["streams"][0]["cursor"] == {"int64": 1050}


def test_the_sync_between_two_servers_is_sound(tmp_path: Path) -> None:
    _own, config, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "gauss.toml").write_text(config)
    servers = {name: f"postgresql://u:p@127.0.0.1:1/{name}" for name in ("SOURCE_DSN", "TARGET_DSN")}
    done = subprocess.run(
        [GAUSS, "check", "--offline"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **servers},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_event_of_a_sync_is_listed() -> None:
    code = [
        *(Path(gauss.connect.__file__).parent.glob("*.py")),
        *(Path(gauss.cli.__file__).parent.glob("sync*.py")),
    ]
    told = {name for path in code for name in re.findall(r'(?:"event": |_emit\()\s*"(\w+)"', path.read_text())}
    [table] = re.findall(r"\| `event` \|.*?\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"event"} == told


def test_the_size_from_which_spark_is_taken_is_the_one_of_the_code() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "pipeline.md").read_text()
    assert f" {SMALL_ROWS:,} rows or more" in PAGE and f" {SMALL_ROWS:,} rows or more" in reference
