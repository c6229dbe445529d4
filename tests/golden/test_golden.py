"""Data directories of earlier versions: this version verifies, opens, scans and continues them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomli

from gauss.cli import main as cli
from gauss.contracts.cursor import Code, Program, Step
from gauss.model.paths import DataDir
from gauss.stream.driver.planning.checkpoint import last_started
from gauss.stream.engine.runtime import Engine
from helpers.engine_process import prepare
from helpers.feeds import send
from helpers.golden import BAD, MINUTE, PER_PART, closed, expected, quotes
from helpers.run import Run, free_port
from helpers.waiting import wait_until

VERSIONS = sorted(path.parent for path in Path(__file__).parent.glob("*/pipeline.toml"))
RECORDS = [*quotes(0), BAD, *quotes(1), BAD]
HIGH = [record for record in RECORDS if record != BAD and json.loads(record)["bid"] >= 100]


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def version(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def data_dir(version: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(version / "data", tmp_path / ".gauss"))


@pytest.fixture
def engine(version: Path, data_dir: Path) -> Iterator[Engine]:
    config = tomli.loads((version / "pipeline.toml").read_text().replace('"${GOLDEN_PORT}"', str(free_port())))
    prepare(data_dir, config)
    engine = Engine(data_dir)
    engine.open()
    yield engine
    engine.close()


def records(engine: Engine, topic: str) -> list[bytes]:
    cursor = engine.topic(topic).open(Program())
    found: list[bytes] = []
    while cursor.next(Step()) is Code.OK:
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch)
        found += batch.column("data").to_pylist()
    return found


def totals(parts: int) -> list[dict[str, Any]]:
    """The expected rows of every closed minute, in plain Python."""
    rows = [json.loads(record) for part in range(parts) for record in quotes(part)]
    found = []
    for minute in closed(parts):
        for symbol in "ABC":
            bids = [row["bid"] for row in rows if row["symbol"] == symbol and row["at"] // MINUTE == minute]
            window = {"window_start": minute * MINUTE, "window_end": (minute + 1) * MINUTE}
            found.append({"symbol": symbol, **window, "n": len(bids), "high": max(bids)})
    return found


def in_order(rows: list[bytes]) -> list[dict[str, Any]]:
    return sorted(map(json.loads, rows), key=lambda row: (row["window_start"], row["symbol"]))


def test_verify_finds_every_record_and_no_damage(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", str(data_dir), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (ended.value.code or 0, found["findings"]) == (0, [])
    counts = {topic["name"]: topic["records"] for topic in found["topics"]}
    assert {name: counts[name] for name in expected(2)} == expected(2)


def test_topics_hold_what_was_written(engine: Engine) -> None:
    for topic in ("quotes", "lines", "archive"):
        assert records(engine, topic) == RECORDS, topic
    assert records(engine, "high") == HIGH
    assert in_order(records(engine, "totals")) == totals(2)


def test_directory_has_every_kind_of_file(data_dir: Path) -> None:
    topics = DataDir(data_dir).topics
    assert len(list((topics / "quotes").glob("*.log"))) > 1, "several segments"
    rolled = [pa.ipc.open_file(path).read_all() for path in sorted((topics / "archive").glob("*.arrow"))]
    assert sum(table.num_rows for table in rolled) == len(RECORDS)
    assert rolled[0].column("bid").to_pylist()[:3] == [0.0, 1.0, 2.0]
    assert last_started(DataDir(data_dir), "to-totals") is not None


def test_dead_letters_name_processor_and_record(engine: Engine) -> None:
    letters = [json.loads(letter) for letter in records(engine, "_dead")]
    found = sorted((letter["processor"], letter["offset"]) for letter in letters)
    by_offset = [(name, at) for name in ("to-high", "to-totals") for at in (PER_PART, 2 * PER_PART + 1)]
    assert found == sorted([*by_offset, ("to-newest", -1), ("to-newest", -1)])


@pytest.mark.system
@pytest.mark.spark
def test_run_continues_behind_the_last_record_and_keeps_open_windows(
    version: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("GOLDEN_PORT", str(port))
    checkpoint = last_started(DataDir(data_dir), "to-totals")
    run = Run(data_dir.parent, (version / "pipeline.toml").read_text())
    try:
        run.start()
        send(port, b"".join(record + b"\n" for record in [*quotes(2), BAD]))
        wait_until(
            lambda: {name: run.topic(name)["end"] for name in expected(3)} == expected(3),
            240,
            lambda: {name: run.topic(name)["end"] for name in expected(3)},
        )
        rows = [json.loads(line)["data"].encode() for line in run.cli("query", "totals", "--json").stdout.splitlines()]
        newest = run.topic("newest")["records"]
    finally:
        run.end()
    assert in_order(rows) == totals(3)
    assert newest == 3
    assert last_started(DataDir(data_dir), "to-totals") == checkpoint, "the state was not used"
