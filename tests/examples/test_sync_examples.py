"""The sync examples, run with the commands of their pages."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from helpers.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


class Page:
    """A copy of an example, and the commands of its README."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        shutil.copytree(ROOT / "examples" / name, self.folder)
        block = re.search(r"```\n(.*?)```", (self.folder / "README.md").read_text(), re.DOTALL)
        assert block is not None
        lines = block[1].replace("\n3,chair", "\\n3,chair").splitlines()
        self.background = [line for line in lines if "in another terminal" in line]
        self.commands = [line for line in lines if "in another terminal" not in line]
        self.started: list[subprocess.Popen[bytes]] = []
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def start(self) -> None:
        for line in self.background:
            with (self.folder / f"{len(self.started)}.log").open("wb") as log:
                self.started.append(
                    subprocess.Popen(
                        ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self._environment, stdout=log, stderr=log
                    )
                )

    def run(self, line: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def runs(self, line: str) -> bool:
        return (
            subprocess.run(
                ["bash", "-c", line], cwd=self.folder, env=self._environment, capture_output=True, check=False
            ).returncode
            == 0
        )

    def close(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            process.wait(60)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Callable[[str], Page]]:
    made: list[Page] = []

    def make(name: str) -> Page:
        made.append(Page(name, tmp_path))
        made[0].start()
        return made[0]

    yield make
    for each in made:
        each.close()


def test_people_are_copied_and_new_ones_follow(page: Callable[[str], Page]) -> None:
    shown = page("sync-postgres")
    wait_until(lambda: shown.runs("gauss db url postgres"), 60)
    told = [shown.run(line) for line in shown.commands]
    assert "CREATE TABLE" in told[1] and "people: succeeded" in told[2] and "succeeded" in told[3]
    for line in shown.commands[:1] + shown.commands[2:3]:
        shown.run(line)
    with psycopg.connect(shown.run("gauss db url postgres").strip()) as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM landing.people").fetchone() == (6, 6)


def test_changes_of_accounts_arrive_in_clickhouse(page: Callable[[str], Page]) -> None:
    shown = page("sync-cdc-to-clickhouse")
    wait_until(lambda: shown.runs("gauss db url postgres && gauss db url clickhouse"), 60)
    told = [shown.run(line) for line in shown.commands]
    assert told[-1].split("\n") == ["1\tAda\t100", "2\tCarl\t225.5", "4\tSofia\t25", ""]


@pytest.mark.spark
def test_new_files_become_records_of_a_topic(page: Callable[[str], Page]) -> None:
    shown = page("sync-files-to-topic")
    first, new_file, history, again = shown.commands
    wait_until(lambda: shown.runs(first) and "desk" in shown.run(first), 120)
    shown.run(new_file.replace("\\n", "\n"))
    wait_until(lambda: "chair" in shown.run(again), 60)
    assert shown.run(again).count("chair") == 1 and "succeeded" in shown.run(history)
