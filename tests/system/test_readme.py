"""The commands of the README, executed with the README's own pipelines."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.run import GAUSS, Run, free_port

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def block(mark: str) -> str:
    found = re.search(rf"<!-- {re.escape(mark)} -->\n```\w*\n(.*?)```", TEXT, re.S)
    assert found is not None, mark
    return found[1]


class Reader:
    """Runs the commands of a block one by one, with other ports, since those of the README may be in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"7100": str(free_port()), "7300": str(free_port())}
        self.run: Run | None = None

    def with_ports(self, text: str) -> str:
        for port, other in self.ports.items():
            text = text.replace(port, other)
        return text

    def write(self, name: str) -> None:
        (self.folder / name).write_text(self.with_ports(block(f"file: {name}")))

    def type(self, mark: str) -> dict[str, str]:
        """Runs a command; returns its output."""
        printed = {}
        for line in block(f"run: {mark}").splitlines():
            command = self.with_ports(line.partition("  #")[0].strip())
            printed[command] = self.start(command) if command.endswith("&") else self.execute(command)
            if command == "gauss new":
                starter = self.folder / "gauss.toml"
                starter.write_text(self.with_ports(starter.read_text()))
        return printed

    def execute(self, command: str) -> str:
        path = f"{Path(GAUSS).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: str) -> str:
        """Runs `gauss run FILE &` and waits until it is ready, as the README says."""
        file = command.split()[2] if command.split()[2].endswith(".toml") else "gauss.toml"
        config = (self.folder / file).read_text()
        self.run = Run(self.folder, config)
        self.run.config.unlink()
        self.run.config = self.folder / file
        self.run.config.write_text(config)
        self.run.start()
        return ""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    yield made
    if made.run is not None:
        made.run.end()


def test_the_first_record_comes_out_after_the_commands_of_the_readme(reader: Reader) -> None:
    *_, tapped = reader.type("first").values()
    assert '{"symbol":"BTC","bid":100.5}' in tapped.replace(" ", "")


def test_every_command_of_the_readme_runs_in_its_pipeline(reader: Reader) -> None:
    reader.write("pipeline.toml")
    reader.write("pipeline.test.toml")
    printed = reader.type("pipeline")
    assert "1 passed, 0 failed" in printed["gauss test pipeline.toml"]
    assert "high" in printed["gauss graph pipeline.toml"]
    *_, scanned = printed.values()
    assert [line.split() for line in scanned.splitlines()] == [["symbol", "mid"], ["BTC", "101"]]


def test_the_install_that_is_told_needs_what_the_package_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'requires-python = ">=3.11"' in project and "Python 3.11 or newer and Java 17 or newer" in TEXT
    assert (ROOT / "constraints.txt").is_file()
