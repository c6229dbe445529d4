"""All examples are executed: their test cases on one Spark, and examples with sockets over real ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gauss.config.check import check
from helpers.feeds import connect, send
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("[0-9][0-9]-*/README.md"))
TESTED = [path for path in EXAMPLES if (path / "pipeline.test.toml").exists()]
Example = Callable[[str], "Running"]


class Running:
    """A copy of an example with other ports, run by `gauss run`."""

    def __init__(self, folder: Path, name: str, file: str) -> None:
        source = next(path for path in EXAMPLES if path.name.startswith(name))
        shutil.copytree(ROOT / "examples" / "schema-maps", folder / "schema-maps")
        shutil.copytree(source, folder / "example")
        self.folder = folder / "example"
        text = (source / file).read_text()
        self.feed, self.out = free_port(), free_port()
        text = text.replace("port = 8042", "port = 0")
        text = text.replace("port = 9100", f"port = {self.feed}").replace("port = 9300", f"port = {self.out}")
        self.run = Run(self.folder, text)

    def send(self, file: str) -> bytes:
        data = (self.folder / file).read_bytes()
        send(self.feed, data)
        return data

    def received(self, size: int) -> bytes:
        """The first bytes that a client of the sink receives."""
        with connect(self.out) as client:
            found = b""
            while len(found) < size:
                piece = client.recv(65_536)
                assert piece, f"the sink closed after {found!r}"
                found += piece
        return found

    def records(self, topic: str) -> list[str]:
        lines = self.run.cli("query", topic, "--json").stdout.splitlines()
        return [json.loads(line)["data"] for line in lines]


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def make(name: str, file: str = "pipeline.toml") -> Running:
        (folder := tmp_path / f"{len(made)}").mkdir()
        made.append(Running(folder, name, file))
        made[-1].run.start()
        return made[-1]

    yield make
    for each in made:
        each.run.end()


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_cases_of_all_examples_and_of_the_document_pass_on_one_spark(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    for name, content in re.findall(r"<!-- file: ([\w.]+) -->\n```toml\n(.*?)```", text, re.S):
        (tmp_path / name).write_text(content)
    done = subprocess.run(
        [GAUSS, "test", *map(str, TESTED), str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=1180,
    )
    told = json.loads(done.stdout)
    assert done.returncode == 0, json.dumps(told, indent=2) + done.stderr
    assert {Path(case["file"]).parent for case in told["cases"]} == {*TESTED, tmp_path}


@pytest.mark.system
def test_1_bytes_go_in_by_one_socket_and_out_by_the_other(example: Callable[..., Running]) -> None:
    running = example("01")
    sent = running.send("quotes.jsonl")
    assert running.received(len(sent)) == sent


@pytest.mark.system
def test_3_one_reader_gets_everything_the_other_the_newest(example: Callable[..., Running]) -> None:
    running = example("03")
    running.send("quotes.jsonl")
    wait_until(lambda: running.run.topic("quotes.reliable")["end"] == 5, what="five records")
    assert running.records("quotes.reliable") == [f"quote {n}" for n in range(1, 6)]
    wait_until(lambda: running.records("quotes.realtime")[-1:] == ["quote 5"], what="the newest")
    assert list((running.folder / "data" / "reliable").rglob("*"))


@pytest.mark.system
def test_4_the_snapshot_has_the_newest_quote_of_each_symbol(example: Callable[..., Running]) -> None:
    running = example("04")
    running.send("quotes.bin")
    table = running.run.api("/api/topics/quotes.live/snapshot")
    assert {symbol: row["bid"] for symbol, row in table.items()} == {"BTC": 50010.0, "ETH": 3000.5}
    readme = (ROOT / "examples" / "04-table-mode" / "README.md").read_text()
    command = next(line.strip() for line in readme.splitlines() if line.strip().startswith("curl"))
    command = command.replace("http://127.0.0.1:8042", running.run.api("/api/health")["url"])
    done = subprocess.run(["bash", "-c", command], cwd=running.run.folder, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == table


@pytest.mark.system
@pytest.mark.parametrize("file", ["pipeline.toml", "as-printed.toml"])
def test_8_frames_come_out_in_tenths_whoever_cuts_them(example: Callable[..., Running], file: str) -> None:
    running = example("08", file)
    sent = running.send("frames.bin")
    assert running.received(len(sent)) == sent
    assert running.run.topic("raw.10")["end"] == (30 if file == "pipeline.toml" else 3)


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_11_arrow_batches_from_a_socket_become_json(example: Callable[..., Running]) -> None:
    running = example("11")
    running.send("quotes.arrows")
    wait_until(lambda: running.run.topic("quotes.json")["end"] == 3, 180, "three rows")
    rows = [json.loads(row) for row in running.records("quotes.json")]
    assert [row["bid"] for row in rows] == [50000.0, 3000.5, 50010.0]


def test_6_as_printed_is_refused_with_the_reason() -> None:
    file = next(path for path in EXAMPLES if path.name.startswith("06")) / "as-printed.toml"
    place = file.read_text().splitlines().index('source = { topic = "quotes.live", read = "offset" }') + 1
    (fault,) = check(file).errors
    assert f'as-printed.toml:{place}:35: processor "live-table": topic "quotes.live" (memory)' in str(fault)
    assert "a table keeps the newest row of each key, not all records in order" in str(fault)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_sound_and_told_of(folder: Path) -> None:
    assert check(folder).faults == []
    readme = (folder / "README.md").read_text()
    summary = readme.split("\n\n")[1].replace("\n", " ")
    listed = f"| [{folder.name}](../examples/{folder.name}/README.md) | {summary} |"
    assert listed in (ROOT / "docs" / "examples.md").read_text().splitlines()
    assert f"gauss run examples/{folder.name} &" in readme
    for named in re.findall(rf"examples/{folder.name}/([\w.-]+)", readme):
        assert (folder / named).is_file(), named
