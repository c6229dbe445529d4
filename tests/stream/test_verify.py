"""Data directories are verified and repaired without an engine; afterwards an engine opens them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gauss.contracts.offline import Finding
from gauss.model.errors import ConfigError, NotFound
from gauss.stream.engine.journal.journal_scan import scan
from gauss.stream.engine.runtime import Engine
from gauss.stream.verify import check_unused, repair, verify
from helpers.directories import CONFIG, WHOLE, fill, opened
from helpers.logs import lines, numbered, open_log, put, records

SEGMENTED = {
    **CONFIG,
    "topics": [
        CONFIG["topics"][0],
        {**CONFIG["topics"][1], "storage_config": {"framing": "newline", "fsync": "never", "segment_bytes": 4096}},
    ],
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("origin"), SEGMENTED)


@pytest.fixture
def directory(origin: Path, tmp_path: Path) -> Path:
    shutil.copytree(origin, tmp_path / "data")
    return tmp_path / "data"


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x10
    path.write_bytes(raw)


def only(directory: Path) -> Finding:
    (finding,) = verify(directory).findings
    return finding


def test_a_directory_as_a_run_left_it_has_no_findings(directory: Path) -> None:
    found = verify(directory)
    assert found.findings == []
    assert {topic["name"]: topic["records"] for topic in found.topics}["b"] == 50


def test_progress_is_told_of_every_byte_that_is_counted_before(directory: Path) -> None:
    from gauss.stream.verify import folders_of

    told: list[int] = []
    verify(directory, told.append)
    assert sum(told) >= sum(folder.offline.size(folder.path) for folder in folders_of(directory)) > 0


@pytest.mark.parametrize("position", [3, 20, 60, -3])
def test_kept_records_of_a_damaged_journal_are_all_there(directory: Path, position: int) -> None:
    flip(directory / "journal" / "commits", position)
    finding = only(directory)
    assert [choice.name for choice in finding.choices] == ["keep", "cut"]
    repair(directory, finding, "keep")
    assert verify(directory).findings == []
    assert opened(directory)[0] == WHOLE


def test_cut_journal_sets_aside_what_it_no_longer_commits(directory: Path) -> None:
    content = (directory / "journal" / "commits").read_bytes()
    flip(directory / "journal" / "commits", len(content) - 5)  # in the last publish, of ten records
    finding = only(directory)
    assert finding.records == 10
    repair(directory, finding, "cut")
    assert verify(directory).findings == []
    found, counters = opened(directory)
    assert (found, counters.set_aside) == (WHOLE[:40], 10)
    assert b"record 45" in b"".join(path.read_bytes() for path in (directory / "topics/b/aside").rglob("*.log"))
    (kept,) = (directory / "journal").glob("commits.damaged-*")
    assert len(kept.read_bytes()) == len(content)


@pytest.mark.parametrize("choice", ["keep", "cut"])
def test_missing_journal_is_written_anew(directory: Path, choice: str) -> None:
    (directory / "journal" / "commits").unlink()
    repair(directory, only(directory), choice)
    assert verify(directory).findings == []
    found, counters = opened(directory)
    assert (found, counters.set_aside) == ((WHOLE, 0) if choice == "keep" else ([], 50))


def test_publish_numbers_of_a_lost_journal_are_not_given_again(directory: Path) -> None:
    (directory / "journal" / "commits").unlink()
    repair(directory, only(directory), "cut")
    assert len(scan((directory / "journal" / "commits").read_bytes()).bodies) == 1
    engine = Engine(directory)
    engine.open()
    number = engine.ledger.next_number()
    engine.close()
    kept = (directory / "topics/b/aside").rglob("*.index")
    assert number > max(int.from_bytes(path.read_bytes()[24:32], "little") for path in kept)


def _log(folder: Path) -> Path:
    return folder / "topic" / f"{0:020d}.log"


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte of a record": lambda folder: flip(_log(folder), 700),
    "a byte of a length": lambda folder: flip(_log(folder).with_suffix(".index"), 48 + 36),
    "a cut log": lambda folder: _log(folder).write_bytes(_log(folder).read_bytes()[:2000]),
    "a cut index": lambda folder: _log(folder).with_suffix(".index").write_bytes(b""),
    "a lost index": lambda folder: _log(folder).with_suffix(".index").unlink(),
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("closed", [True, False])
def test_damaged_records_are_dropped_and_the_others_stay(tmp_path: Path, change: str, closed: bool) -> None:
    config = {"framing": "newline", "fsync": "never", "segment_bytes": 4096}
    log = open_log("file", tmp_path, config)
    for number in range(15 if closed else 5):
        put(log, lines(*[b"%d" % number * 300] * 2, ts_ms=[2 * number, 2 * number + 1]))
    whole = records(log)
    log.close()
    CHANGES[change](tmp_path)
    folder = tmp_path / "topic"
    findings = verify(folder).findings
    torn = not closed and change in ("a cut log", "a cut index")  # truncated and counted at open
    assert bool(findings) != torn
    for finding in findings:
        repair(folder, finding, "drop")
    assert verify(folder).findings == []
    again = open_log("file", tmp_path, config)
    assert set(records(again)) <= set(whole)
    if not torn:
        lost = sum(finding.records for finding in findings)
        assert len(records(again)) >= len(whole) - lost
        assert again.end >= len(whole)
        assert list((folder / "aside").rglob("*.*"))


def test_damaged_arrow_file_keeps_its_sound_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauss.plugins.storages.file.rolled_segment.BATCH_BYTES", 100)
    config = {"file_format": "arrow_ipc_file", "roll_rows": 40}
    log = open_log("file", tmp_path, config)
    for number in range(0, 50, 10):
        put(log, numbered(number, 10))
    for _ in range(3):
        log.maintain(0)
    log.close()
    arrow = min(tmp_path.rglob("*.arrow"))
    position = arrow.read_bytes().index(b"r15")
    flip(arrow, position)
    folder = tmp_path / "topic"
    findings = verify(folder).findings
    assert [finding.path for finding in findings] == [arrow]
    repair(folder, findings[0], "drop")
    assert verify(folder).findings == []
    again = open_log("file", tmp_path, config)
    left = [data for _, _, data in records(again)]
    assert b"r15" not in left and {b"r20", b"r39", b"r49"} <= set(left)


def test_flipped_meta_is_restored_from_its_copy(directory: Path) -> None:
    flip(directory / "topics/b/meta.json", 30)
    finding = only(directory)
    assert (finding.kind, finding.choices[0].name) == ("meta", "restore")
    repair(directory, finding, "restore")
    assert verify(directory).findings == []
    assert opened(directory)[0] == WHOLE


def test_topic_without_readable_meta_can_be_set_aside(directory: Path) -> None:
    for name in ("meta.json", "meta.copy.json"):
        flip(directory / "topics/b" / name, 30)
    finding = only(directory)
    assert [choice.name for choice in finding.choices] == ["aside"] and finding.records == 50
    repair(directory, finding, "aside")
    assert verify(directory).findings == []
    assert opened(directory)[0] == []
    assert list((directory / "topics/b/aside").rglob("*.log"))


def test_topic_that_is_kept_elsewhere_is_checked_with_its_directory(tmp_path: Path) -> None:
    made = {**CONFIG, "topics": [CONFIG["topics"][0], {**CONFIG["topics"][1]}]}
    made["topics"][1]["storage_config"] = {"data_dir": str(tmp_path / "mine"), "framing": "newline", "fsync": "never"}
    directory = fill(tmp_path / "data", made)
    flip(min((tmp_path / "mine").glob("*.log")), 5)
    finding = only(directory)
    assert (finding.topic, finding.path.parent) == ("b", tmp_path / "mine")


def test_directory_of_a_running_engine_is_refused(directory: Path) -> None:
    engine = Engine(directory)
    engine.open()
    with pytest.raises(ConfigError, match="in use"):
        check_unused(directory)
    engine.close()
    check_unused(directory)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="neither"):
        verify(tmp_path)
